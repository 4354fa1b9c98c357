"""All devices of a fleet as one program with one connection, saying what agents would say.

They compute nothing. A broker's access list would keep one user from speaking for others; the
coordinator's own may publish everywhere, so its user lends them its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth, Capabilities, CoordinatorBirth, Heartbeat, Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics, UpLeaf, qos_of
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.errors import TransportError
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings

PATIENCE_SECONDS = 900.0
_AGAIN_SECONDS = 30.0
"""After which a birth that has no answer is sent again, as by an agent."""
_UNDER_WAY = 64
CAPABLE = Capabilities(
    agent_version="0.1.0",
    python="3.11",
    machine="aarch64",
    features=frozenset({"numpy", "onnxruntime"}),
    provider="CPUExecutionProvider",
    memory_mib=8192,
)


class ScriptedFleet:
    """Devices that are born, are there, and say that they have nothing to give."""

    def __init__(
        self, names: Sequence[DeviceId], topics: FleetTopics, connection: MqttConnection
    ) -> None:
        self._names = names
        self._topics = topics
        self._connection = connection
        self._senders = {name: Sender(topics.fleet, name, BootId.fresh()) for name in names}
        self._random = Random(1)
        self.spread_seconds = 0.0
        """What the coordinator's newest birth asks for."""
        self._announced = False
        self._welcomed: set[DeviceId] = set()
        self._receipts = 0
        connection.subscribe(topics.coordinator_state, *_answers(topics))
        connection.start()

    def come(self) -> tuple[float, int]:
        """Be born, as the coordinator asks; return seconds, and births that were sent again.

        Raises `TimeoutError` where a device is never welcomed.
        """
        self._welcomed.clear()
        self._until(lambda: self._announced, "the coordinator did not announce itself")
        began = time.monotonic()
        due = {name: began + self._random.uniform(0, self.spread_seconds) for name in self._names}
        waiting, again = sorted(due, key=due.__getitem__, reverse=True), 0
        while len(self._welcomed) < len(self._names):
            now = time.monotonic()
            if now - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{len(self._welcomed)} of {len(self._names)} were welcomed")
            self._hear(0.01)
            while waiting and due[waiting[-1]] <= now:
                if not self._say(waiting[-1], _birth(), "state"):
                    break
                due[waiting.pop()] = now + _AGAIN_SECONDS
            if not waiting:
                late = [name for name in self._names if name not in self._welcomed]
                waiting = [name for name in late if due[name] <= now]
                again += len(waiting)
        return time.monotonic() - began, again

    def forget(self) -> None:
        """Wait for the next birth of the coordinator, whatever came before."""
        self._hear(0)
        self._announced = False

    def beat(self, count: int) -> None:
        """Have some devices say that they are alive."""
        for name in self._some(count):
            self._say_surely(name, _heartbeat(), "hb")

    def say_nothing(self, count: int, stage: int) -> None:
        """Have some devices say that they have nothing to give, and take their receipts."""
        self._receipts = 0
        for said, name in enumerate(self._some(count), start=1):
            self._say_surely(name, Nothing(stage=stage), "msg")
            self._receive(said - _UNDER_WAY)
        self._receive(count)

    def close(self) -> None:
        """Leave the broker."""
        self._connection.stop()

    def _receive(self, receipts: int) -> None:
        self._until(lambda: self._receipts >= receipts, "receipts do not come")

    def _some(self, count: int) -> list[DeviceId]:
        return self._random.sample(list(self._names), count)

    def _until(self, found: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not found():
            if time.monotonic() > end:
                raise TimeoutError(otherwise)
            self._hear(0.05)

    def _say_surely(self, name: DeviceId, body: Message, leaf: UpLeaf) -> None:
        self._until(lambda: self._say(name, body, leaf), "the broker takes nothing")

    def _say(self, name: DeviceId, body: Message, leaf: UpLeaf) -> bool:
        data = encode(self._senders[name].seal(body, sent_ms=0))
        try:
            self._connection.publish(
                OutgoingMessage(self._topics.up(name, leaf), data, qos=qos_of(leaf))
            )
        except TransportError:
            return False  # not connected, or too much is on its way
        return True

    def _hear(self, seconds: float) -> None:
        event = self._connection.next_event(seconds)
        while event is not None:
            if isinstance(event, IncomingMessage):
                self._take(event)
                self._connection.acknowledge(event)
            event = self._connection.next_event(0)

    def _take(self, message: IncomingMessage) -> None:
        if not message.payload:
            return
        envelope = decode(message.payload)
        if envelope.header.kind == CoordinatorBirth.kind:
            self.spread_seconds = float(envelope.read(CoordinatorBirth).spread_seconds or 0)
            self._announced = True
        elif envelope.header.kind == Welcome.kind:
            self._welcomed.add(self._topics.parse(message.topic).device)
        elif envelope.header.kind == Receipt.kind:
            self._receipts += 1


def _answers(topics: FleetTopics) -> list[str]:
    """Return filters for what all devices are told that they wait for."""
    one = DeviceId("x")
    return [topics.down(one, leaf).replace("/x/", "/+/") for leaf in ("rcpt", "ctl")]


def _birth() -> Birth:
    return Birth(installation=BootId("0123456789abcdef"), capabilities=CAPABLE)


def _heartbeat() -> Heartbeat:
    return Heartbeat(
        welcomed=True,
        assignment_action=2**40,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=100_000_000,
        bytes_up=1_000_000,
        bytes_down=1_000_000,
    )


def connected_as(host: str, port: int, user: str, password: str) -> MqttConnection:
    """Return a connection of a user, under a name of its own, with room for a whole fleet."""
    return MqttConnection(
        MqttSettings(
            client_id=f"{user}.fleet",
            host=host,
            port=port,
            user=user,
            password=password,
            inbox_messages=200_000,
            inbox_bytes=1 << 28,
            queue_bytes=1 << 26,
            reconnect_shortest_seconds=0.1,
            reconnect_longest_seconds=1.0,
        )
    )
