"""The proxy's shell: one control connection, an exchange for each branch, one thread that works.

What happens becomes an input; what the rules decide is written, and only then carried out; a
message is acknowledged to the broker last. `run` is the loop of a real proxy; whoever has a loop of
their own calls `begin`, then `step`, and `end`.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.proxy import decision
from fleetledger.coordinator.proxy.core import ProxyCore
from fleetledger.coordinator.proxy.decision import (
    Fetched,
    Gradients,
    Input,
    ProxyDecision,
    ProxyFetch,
    Request,
    Tell,
)
from fleetledger.coordinator.proxy.records import Name
from fleetledger.coordinator.proxy.scoring import carried_out, check, score
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.proxy.store import ProxyStore
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.log_setup import EventLog
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport import interface
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.connection_log import say_connection
from fleetledger.transport.errors import BlockError, TransportError
from fleetledger.transport.results import JobQueue
from fleetledger.transport.transfer import Exchange


class ProxyMail:
    """Reads what arrives, and seals what goes out."""

    def __init__(self, fleet: FleetId, sender: Sender, clock: Clock) -> None:
        self._fleet = fleet
        self._sender = sender
        self._clock = clock
        self._ordinary = FleetTopics(fleet)
        self._branch = FleetTopics(fleet, "proxy")
        self._order = str(self._ordinary.down(PROXY, "assignment"))
        self._receipt = str(self._ordinary.down(PROXY, "rcpt"))
        self._spoken: dict[DeviceId, int] = {}
        """Version of the wire of what each device said last."""

    @property
    def filters(self) -> tuple[str, ...]:
        """What the control connection subscribes to."""
        return (self._order, self._receipt, *self._branch.from_every_device("msg"))

    def read(self, message: interface.IncomingMessage) -> Input:
        """Return the input that a message means; raise `SchemaError` for what is not sent there."""
        envelope = decode(message.payload, wire=self._sender.wire)
        from_coordinator = message.topic in (self._order, self._receipt)
        speaker = COORDINATOR if from_coordinator else self._branch.parse(message.topic).device
        header = envelope.header
        if (header.fleet, header.sender) != (self._fleet, speaker):
            raise EnvelopeError(
                f"sender: {header.sender!r} of {header.fleet!r} speaks on {message.topic}"
            )
        if message.topic == self._order:
            return envelope.read(ScoringOrder)
        if message.topic == self._receipt:
            receipt = envelope.read(Receipt)
            if receipt.about != "scored":
                raise SchemaError(f"about: a receipt for {receipt.about}, of which none went out")
            return receipt
        self._spoken[speaker] = header.version
        return Gradients(speaker, envelope.read(PrototypeGradients), envelope.attachment)

    def seal(self, told: Tell) -> interface.OutgoingMessage:
        """Return a message, to a device in the version in which it spoke last."""
        device, version = told.device, None
        topic = self._ordinary.up(PROXY, "msg")
        if device is not None:
            topic, version = self._branch.down(device, "rcpt"), self._spoken.get(device)
        sealed = self._sender.seal(told.body, sent_ms=self._clock.time_ms(), version=version)
        return interface.OutgoingMessage(str(topic), encode(sealed))


log = logging.getLogger("coordinator.proxy")

LONGEST_WAIT_SECONDS = 1.0
FETCH_SECONDS = 600.0


@dataclass(frozen=True)
class ProxySurroundings:
    """What a proxy runs on."""

    sender: Sender
    control: interface.Connection
    ordinary: Exchange
    """With the coordinator, as a device."""
    branch: Exchange
    """With devices, as their coordinator has one."""
    scoring: JobQueue[Input]
    """One thread, on which torch runs."""
    clock: Clock = SYSTEM_CLOCK


class ProxyProgram:
    """The proxy that lives in `home`; it runs until `stop` is called."""

    def __init__(self, home: Path, settings: ProxyHomeSettings, around: ProxySurroundings) -> None:
        """Open the store; raise `ProxyError`."""
        self._around, self._device = around, settings.device
        self._store = ProxyStore(home / "proxy.db")
        self._incoming = home / "incoming"
        # Nothing in it outlives the run that fetched it: devices and coordinator offer it again.
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir()
        self._records = self._store.load()
        self._core = ProxyCore(settings.limits, self._records)
        self._mail = ProxyMail(settings.fleet, around.sender, around.clock)
        self._events = EventLog("coordinator.proxy.events", around.clock.seconds)
        self._stopping = False

    def run(self) -> None:
        """Connect and serve until `stop`."""
        try:
            self.begin()
            while not self._stopping:
                self.step(LONGEST_WAIT_SECONDS)
        finally:
            self.end()

    def begin(self) -> None:
        """Subscribe and connect."""
        self._around.ordinary.start()
        self._around.branch.start()
        self._around.control.subscribe(*self._mail.filters)
        self._around.control.start()

    def stop(self) -> None:
        """End `run` soon; from any thread, or from a signal handler."""
        self._stopping = True
        self._around.control.wake()

    def end(self) -> None:
        """Close everything; what is under way is begun again after the next start."""
        around = self._around
        for part in (around.control, around.ordinary, around.branch, around.scoring):
            part.stop()
        self.close()

    def close(self) -> None:
        """Close the store alone, as the end of the process would."""
        self._store.close()

    @property
    def wake_at(self) -> float:
        """When `step` is due though nothing comes, by the clock; infinity if it is not."""
        return self._core.wake_at()

    def step(self, seconds: float) -> bool:
        """Take in what comes within `seconds` and do what is due; return whether there was any."""
        around = self._around
        wait = min(seconds, max(0.0, self.wake_at - around.clock.seconds()))
        event = around.control.next_event(wait)
        happened = event is not None
        if event is not None:
            self._take(event)
        for result in around.scoring.collect():
            happened = True
            self._give(result)
        while decided := self._core.due(around.clock.seconds()):
            happened = True
            self._follow(decided)
        return happened

    def _take(self, event: interface.Event) -> None:
        if isinstance(event, interface.IncomingMessage):
            happened = self._read(event)
            if happened is not None:
                self._give(happened)
            self._around.control.acknowledge(event)
            return
        if not isinstance(event, interface.Subscribed):
            say_connection(self._events, event)
        if isinstance(event, interface.Connected):
            self._give(event)

    def _read(self, message: interface.IncomingMessage) -> Input | None:
        try:
            # Without a payload a retained order was cleared.
            return self._mail.read(message) if message.payload else None
        except SchemaError as error:
            log.warning("%s: %s", message.topic, error, extra=about("message.not_readable"))
            return None

    def _give(self, event: Input) -> None:
        self._follow(self._core.handle(event, self._around.clock.seconds()))

    def _follow(self, decided: ProxyDecision) -> None:
        if decided.changes:
            self._store.commit(decided.changes)
            for change in decided.changes:
                self._records.apply(change)
        for request in decided.requests:
            self._carry_out(request)

    def _carry_out(self, request: Request) -> None:
        store, device = self._store, self._device
        match request:
            case decision.Tell():
                self._tell(request)
            case ProxyFetch():
                self._fetch(request)
            case decision.Check(order, name):
                data = store.payload(name)
                self._submit(order, lambda: check(order, name, data))
            case decision.Score(order, weights, names, anew):
                state = None if anew else store.state()
                fresh = {name: store.payload(name) for name in names}
                self._submit(order, lambda: score(order, state, fresh, weights, device))

    def _submit(self, order: ScoringOrder, job: Callable[[], Input]) -> None:
        self._around.scoring.submit(lambda: carried_out(order, job))

    def _tell(self, told: decision.Tell) -> None:
        message = self._mail.seal(told)
        try:
            self._around.control.publish(message)
        except TransportError as error:
            # Devices ask again for their receipts, and a score is told again.
            log.info("not sent to %s: %s", message.topic, error, extra=about("message.not_sent"))

    def _fetch(self, request: ProxyFetch) -> None:
        around, wanted = self._around, request.wanted
        of_device = isinstance(wanted, Name)
        exchange = around.branch if of_device else around.ordinary
        path = self._incoming / (str(wanted) if of_device else request.offer.digest)

        def came(file: Future[Path]) -> None:
            data, fault = None, ""
            try:
                data = file.result().read_bytes()
                path.unlink()
            except (BlockError, OSError) as error:
                data, fault = None, str(error)
                if isinstance(wanted, ScoringOrder):
                    said = about("weights.not_fetched", index=wanted.action)
                    log.warning("weights of order %d: %s", wanted.action, error, extra=said)
            around.scoring.put(Fetched(wanted, data, fault))

        try:
            file = exchange.fetch(request.offer, path, request.peer, seconds=FETCH_SECONDS)
        except BlockError as error:
            file = Future()
            file.set_exception(error)
        file.add_done_callback(came)
