"""The proxy of light agents: the real program on its real store, handed everything at once.

What devices would send it, and the coordinator orders, is put into its mailbox as the messages that
they are; files are given by their bytes. What it computes is done when it is handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from pathlib import Path

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.proxy.decision import Input
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.proxy.shell import ProxyProgram, ProxySurroundings
from fleetledger.device_agent.core.outbox import refusal_problem
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Sender, decode, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Later, Receipt, Refused
from fleetledger.schemas.topics import DownLeaf, FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.simulator.engines.inprocess.home import FLEET
from fleetledger.simulator.engines.inprocess.light.context import LightContext, device_message
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.proxy import ProxyTraffic, in_fleet_time
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.interface import Connected, Event, IncomingMessage, OutgoingMessage
from fleetledger.transport.meter import Counts, Meter
from fleetledger.transport.results import JobQueue

_MOST_BYTES = 1 << 28


class Mailbox:
    """The proxy's connection: what is delivered comes out of it, what is published stays here."""

    max_payload = _MOST_BYTES
    connected = True

    def __init__(self) -> None:
        self.meter = Meter()
        self._events: deque[Event] = deque([Connected(session_present=True)])
        self._said: list[OutgoingMessage] = []

    def deliver(self, topic: str, payload: bytes) -> None:
        """Let a message arrive."""
        self.meter.received(topic, len(payload))
        self._events.append(IncomingMessage(topic, payload, qos=1, retained=False))

    def said(self) -> list[OutgoingMessage]:
        """Take what was published."""
        taken, self._said = self._said, []
        return taken

    def publish(self, message: OutgoingMessage) -> None:
        """Keep a message for whoever reads it."""
        self.meter.sent(message.topic, len(message.payload))
        self._said.append(message)

    def next_event(self, seconds: float) -> Event | None:
        """Return what came first; nothing is waited for."""
        return self._events.popleft() if self._events else None

    def start(self) -> None:
        """Connect: it always is."""

    def wait_connected(self, seconds: float) -> None:
        """Wait for nothing."""

    def stop(self) -> None:
        """End."""

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Take what is delivered, which is nothing else."""

    def unsubscribe(self, *filters: str) -> None:
        """Take what is delivered all the same."""

    def wake(self) -> None:
        """Nobody waits."""

    def acknowledge(self, message: IncomingMessage) -> None:
        """Nothing comes twice."""


class HandedFiles:
    """An exchange whose files are there as soon as they are asked for."""

    on_failure: Callable[[Exception], None] | None = None

    def __init__(self, read: Callable[[Digest], bytes]) -> None:
        self._read = read
        self._counts = Counts()

    def fetch(
        self,
        offer: Offer,
        destination: Path,
        peer: DeviceId,
        *,
        seconds: float,
        url: str | None = None,
    ) -> Future[Path]:
        """Write a file where it is wanted."""
        destination.write_bytes(self._read(offer.digest))
        self._counts += Counts(bytes_down=offer.size)
        done: Future[Path] = Future()
        done.set_result(destination)
        return done

    def traffic(self) -> Counts:
        """Return what was handed over."""
        return self._counts

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def serve(self, data: bytes | Path | BlockSource) -> Offer:
        """Serve nothing: a proxy gives no files."""
        raise EngineError("a proxy gives no files")

    def source(self, digest: Digest) -> BlockSource | None:
        """Return nothing, as `serve` says."""

    def withdraw_all_but(self, keep: Collection[Digest]) -> None:
        """Serve nothing."""

    def cancel(self, digest: Digest) -> None:
        """End nothing: all is here."""


class DirectScoring(JobQueue[Input]):
    """Scoring that runs a job when it is submitted, counted as `proxy`."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__(lambda: None, "scoring")
        self._stopwatch = stopwatch

    def submit(self, job: Callable[[], Input], thread: str = "") -> None:
        """Do a job now."""
        with self._stopwatch.phase("proxy"):
            self.put(in_fleet_time(job()))


class LightProxy:
    """A proxy that lives in `home`, which is made if it is missing."""

    def __init__(
        self,
        context: LightContext,
        home: Path,
        settings: ProxyHomeSettings,
        boot: BootId,
        scoring: JobQueue[Input] | None = None,
    ) -> None:
        """`scoring` does what it computes; at once if left out."""
        # Pictures lie here that nobody else should see.
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._context = context
        self._ordinary, self._branch = FleetTopics(FLEET), FleetTopics(FLEET, "proxy")
        self._boot = boot
        self._payloads: dict[Digest, bytes] = {}
        """Of gradients without a receipt."""
        self._given: dict[tuple[DeviceId, Digest], PrototypeGradients] = {}
        self._defer: list[tuple[DeviceId, PrototypeGradients]] = []
        """Gradients for which there was no room."""
        self._mailbox = Mailbox()
        self._files = HandedFiles(context.coordinator.blobs.get)
        self._gradients = HandedFiles(self._payloads.__getitem__)
        self._program = ProxyProgram(
            home,
            settings,
            ProxySurroundings(
                sender=Sender(FLEET, PROXY, boot),
                control=self._mailbox,
                ordinary=self._files,
                branch=self._gradients,
                scoring=scoring or DirectScoring(context.stopwatch),
                clock=context.clock.readings,
            ),
        )
        self._program.begin()
        context.coordinator.on_proxy = self.told

    def give(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        """Let gradients of a device arrive, and be stored."""
        self._arrived(device, body, payload)
        self._work()

    def _arrived(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        self._payloads[body.payload] = payload
        self._given[device, body.payload] = body
        attached = payload if body.offer is None else b""
        sender = Sender(self._context.coordinator.fleet, device, self._boot)
        envelope = sender.seal(body, sent_ms=self._context.sent_ms(), attachment=attached)
        self._mailbox.deliver(str(self._branch.up(device, "msg")), encode(envelope))

    def told(self, body: Message) -> None:
        """Let an order arrive, or a receipt."""
        leaf: DownLeaf = "assignment" if isinstance(body, ScoringOrder) else "rcpt"
        sender = Sender(FLEET, COORDINATOR, self._boot)
        envelope = sender.seal(body, sent_ms=self._context.sent_ms())
        self._mailbox.deliver(str(self._ordinary.down(PROXY, leaf)), encode(envelope))

    def step(self) -> bool:
        """Do what there is to do, and tell the coordinator; return whether there was anything."""
        self._work()
        said = [one for message in self._mailbox.said() for one in self._heard(message)]
        if said:
            self._context.coordinator.process(said)
        waiting, self._defer = self._defer, []
        for device, body in waiting:
            self.give(device, body, self._payloads[body.payload])
        return bool(said)

    def traffic(self) -> ProxyTraffic:
        """Return what it has sent and received, to and from everybody."""
        models, gradients = self._files.traffic(), self._gradients.traffic()
        return ProxyTraffic.of(self._mailbox.meter, models, gradients)

    def close(self) -> None:
        """Close its files."""
        self._program.end()

    def _work(self) -> None:
        while self._program.step(0):
            pass

    def _heard(self, message: OutgoingMessage) -> Iterator[inputs.Input]:
        """Yield what the core is told because of a message of the proxy."""
        envelope = decode(message.payload)
        if message.topic == str(self._ordinary.up(PROXY, "msg")):
            yield inputs.DeviceMessage(PROXY, envelope)
            return
        device, receipt = self._branch.parse(message.topic).device, envelope.read(Receipt)
        assert receipt.payload is not None
        body = self._given.pop((device, receipt.payload), None)
        if body is not None and isinstance(receipt.answer, Later):
            self._defer.append((device, body))
            return
        self._payloads.pop(receipt.payload, None)  # not there where a former process gave it
        if isinstance(receipt.answer, Refused):
            problem = refusal_problem(OutboxKey("gradients", receipt.key), receipt.answer.reason)
            yield device_message(self._context, device, problem)
