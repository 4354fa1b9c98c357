"""A proxy that does what a test says, and whoever listens to the coordinator's branch."""

from pathlib import Path

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import PROXY, Envelope, Sender, decode, encode
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import ROOT, FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.transfer import BlockExchange
from tests.device_agent import making
from tests.device_agent.scripted import DEVICE, FLEET, SECONDS, eventually

PROXY_TOPICS = FleetTopics(FLEET, "proxy")


class ScriptedProxy:
    """Takes gradients and answers as it is told; its blocks come over the proxy's branch."""

    def __init__(self, broker: InMemoryBroker) -> None:
        self.sender = Sender(FLEET, PROXY, BootId.fresh())
        self.connection = broker.connection("proxy", user="proxy")
        self.connection.subscribe(*PROXY_TOPICS.from_every_device("msg"))
        self.connection.start()
        self.connection.wait_connected(SECONDS)
        self.exchange = BlockExchange(
            broker.connection("proxy.data", user="proxy"),
            PROXY_TOPICS,
            Sender(FLEET, PROXY, BootId.fresh()),
        )
        self.exchange.start()
        self.arrived: list[Envelope] = []

    def stop(self) -> None:
        self.connection.stop()
        self.exchange.stop()

    def wait_for_gradients(self) -> tuple[PrototypeGradients, Envelope]:
        """Return the next message, among those that arrived and those to come."""
        eventually(self._look)
        envelope = self.arrived.pop(0)
        return envelope.read(PrototypeGradients), envelope

    def forget(self) -> None:
        """Leave out what came so far: offers of a run that is over are not served any more."""
        while self._look():
            self.arrived.clear()

    def fetch(self, body: PrototypeGradients, path: Path) -> bytes:
        assert body.offer is not None
        fetched = self.exchange.fetch(body.offer, path, DEVICE, seconds=SECONDS)
        return fetched.result().read_bytes()

    def accept(self, key: PartKey) -> None:
        self.say(making.accepted("gradients", key))

    def say(self, receipt: Receipt, sender: DeviceId = PROXY) -> None:
        """Send a receipt, under a name that is not always the proxy's."""
        envelope = Sender(FLEET, sender, self.sender.boot).seal(receipt, sent_ms=0)
        topic = PROXY_TOPICS.down(DEVICE, "rcpt")
        self.connection.publish(OutgoingMessage(topic, encode(envelope)))

    def _look(self) -> bool:
        event = self.connection.next_event(0.01)
        if isinstance(event, IncomingMessage):
            self.arrived.append(decode(event.payload))
            self.connection.acknowledge(event)
        return bool(self.arrived)


class Listener:
    """Reads every message of the ordinary branch, as the coordinator and the broker's owner may."""

    def __init__(self, broker: InMemoryBroker) -> None:
        self.connection = broker.connection("listener")
        root = f"{ROOT}/{FLEET}"
        self.connection.subscribe(f"{root}/up/#", f"{root}/down/#", f"{root}/all/#")
        self.connection.start()

    def everything(self) -> list[IncomingMessage]:
        """Stop, and return what was said."""
        heard = []
        while (event := self.connection.next_event(0.05)) is not None:
            if isinstance(event, IncomingMessage):
                heard.append(event)
        self.connection.stop()
        return heard


def kind_of(message: IncomingMessage) -> str:
    try:
        return decode(message.payload).header.kind
    except SchemaError:
        return ""
