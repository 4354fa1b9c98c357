"""The proxy's shell: one control connection, an exchange for each branch, one thread that works.

What happens becomes an input; what the rules decide is written, and only then carried out; a
message is acknowledged to the broker last. `run` is the loop of a real proxy; whoever has a loop of
their own calls `begin`, then `step`, and `end`.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.proxy import inputs
from fleetledger.coordinator.proxy.core import ProxyCore
from fleetledger.coordinator.proxy.mail import ProxyMail
from fleetledger.coordinator.proxy.records import Name
from fleetledger.coordinator.proxy.requests import (
    Check,
    FetchPayload,
    FetchWeights,
    ProxyDecision,
    Request,
    Score,
    SendReceipt,
    Tell,
)
from fleetledger.coordinator.proxy.scoring import Fresh, check, score
from fleetledger.coordinator.proxy.scoring_worker import ScoringWorker
from fleetledger.coordinator.proxy.store import ProxyStore
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.errors import SchemaError
from fleetledger.schemas.log_lines import about
from fleetledger.schemas.log_setup import EventLog
from fleetledger.schemas.values import Digest
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.connection_log import say_connection
from fleetledger.transport.errors import BlockError, TransportError
from fleetledger.transport.interface import (
    Connected,
    Connection,
    ConnectionProblem,
    Disconnected,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.transfer import Exchange

log = logging.getLogger("coordinator.proxy")

LONGEST_WAIT_SECONDS = 1.0
FETCH_SECONDS = 600.0


@dataclass(frozen=True)
class ProxyParts:
    """What the shell is put together from."""

    core: ProxyCore
    store: ProxyStore
    mail: ProxyMail
    control: Connection
    ordinary: Exchange
    """With the coordinator, as a device."""
    branch: Exchange
    """With devices, as their coordinator has one."""
    scoring: ScoringWorker
    incoming: Path
    """Folder of what is being fetched."""
    device: str = "cpu"
    """Where is computed, as the settings name it."""
    clock: Clock = SYSTEM_CLOCK


class ProxyProgram:
    """Runs until `stop` is called."""

    def __init__(self, parts: ProxyParts) -> None:
        self._parts = parts
        self._events = EventLog("coordinator.proxy.events", parts.clock.seconds)
        self._stopping = False

    def run(self) -> None:
        """Connect and serve until `stop`."""
        self._parts.ordinary.start()
        self._parts.branch.start()
        try:
            self.begin()
            while not self._stopping:
                self.step(LONGEST_WAIT_SECONDS)
        finally:
            self.end()

    def begin(self) -> None:
        """Subscribe and connect."""
        self._parts.control.subscribe(*self._parts.mail.filters)
        self._parts.control.start()

    def stop(self) -> None:
        """End `run` soon; from any thread, or from a signal handler."""
        self._stopping = True
        self._parts.control.wake()

    def end(self) -> None:
        """Close everything; what is under way is begun again after the next start."""
        parts = self._parts
        parts.control.stop()
        parts.ordinary.stop()
        parts.branch.stop()
        parts.scoring.stop()
        self.close()

    def close(self) -> None:
        """Close the store alone, as the end of the process would."""
        self._parts.store.close()

    @property
    def wake_at(self) -> float:
        """When `step` is due though nothing comes, by the clock; infinity if it is not."""
        return self._parts.core.wake_at()

    def step(self, seconds: float) -> bool:
        """Take in what comes within `seconds` and do what is due; return whether there was any."""
        parts = self._parts
        wait = min(seconds, max(0.0, self.wake_at - parts.clock.seconds()))
        event = parts.control.next_event(wait)
        happened = event is not None
        if event is not None:
            self._take(event)
        for result in parts.scoring.collect():
            happened = True
            self._give(result)
        return self._do_what_is_due() or happened

    def _take(self, event: IncomingMessage | Connected | Disconnected | ConnectionProblem) -> None:
        match event:
            case Connected():
                say_connection(self._events, event)
                self._give(inputs.ProxyConnected())
            case Disconnected() | ConnectionProblem():
                say_connection(self._events, event)
            case IncomingMessage():
                if event.payload:  # else a retained order was cleared
                    self._take_message(event)
                self._parts.control.acknowledge(event)

    def _take_message(self, message: IncomingMessage) -> None:
        try:
            happened = self._parts.mail.read(message)
        except SchemaError as error:
            log.warning("%s: %s", message.topic, error, extra=about("message.not_readable"))
        else:
            self._give(happened)

    def _give(self, event: inputs.Input) -> None:
        self._follow(self._parts.core.handle(event, self._parts.clock.seconds()))

    def _do_what_is_due(self) -> bool:
        did = False
        while decision := self._parts.core.due(self._parts.clock.seconds()):
            did = True
            self._follow(decision)
        return did

    def _follow(self, decision: ProxyDecision) -> None:
        if decision.changes:
            self._parts.store.commit(decision.changes)
            self._parts.core.commit(decision.changes)
        for request in decision.requests:
            self._carry_out(request)

    def _carry_out(self, request: Request) -> None:
        parts = self._parts
        match request:
            case SendReceipt(device, receipt):
                self._publish(parts.mail.to_device(device, receipt))
            case Tell(body):
                self._publish(parts.mail.to_coordinator(body))
            case FetchPayload():
                self._fetch_payload(request)
            case FetchWeights():
                self._fetch_weights(request)
            case Check(order, name):
                fresh = self._fresh(name)
                parts.scoring.submit(lambda: check(order, fresh))
            case Score():
                self._score(request)

    def _publish(self, message: OutgoingMessage) -> None:
        try:
            self._parts.control.publish(message)
        except TransportError as error:
            # Devices ask again for their receipts, and a score is told again.
            log.info("not sent to %s: %s", message.topic, error, extra=about("message.not_sent"))

    def _fetch_payload(self, request: FetchPayload) -> None:
        parts, name = self._parts, request.name
        path = parts.incoming / f"{name.key.stage}-{name.key.part}-{name.payload}"

        def finished(future: Future[Path]) -> None:
            try:
                data = future.result().read_bytes()
                path.unlink()
            except (BlockError, OSError) as error:
                parts.scoring.put(inputs.PayloadLost(name, str(error)))
            else:
                parts.scoring.put(inputs.PayloadFetched(name, data))

        try:
            fetched = parts.branch.fetch(request.offer, path, request.device, seconds=FETCH_SECONDS)
        except BlockError as error:
            parts.scoring.put(inputs.PayloadLost(name, str(error)))
        else:
            fetched.add_done_callback(finished)

    def _fetch_weights(self, request: FetchWeights) -> None:
        parts, offer = self._parts, request.order.weights

        def finished(future: Future[Path]) -> None:
            error = future.exception()
            if error is None:
                parts.scoring.put(inputs.WeightsFetched(offer.digest))
                return
            _warn_of_weights(request, error)
            parts.scoring.put(inputs.WeightsLost(offer.digest))

        try:
            path = self._weights_path(offer.digest)
            fetched = parts.ordinary.fetch(offer, path, PROXY, seconds=FETCH_SECONDS)
        except BlockError as error:
            _warn_of_weights(request, error)
            parts.scoring.put(inputs.WeightsLost(offer.digest))
        else:
            fetched.add_done_callback(finished)

    def _score(self, request: Score) -> None:
        order, store = request.order, self._parts.store
        path = self._weights_path(order.weights.digest)
        state = None if request.anew else store.state()
        fresh = [self._fresh(name) for name in request.fresh]

        def job() -> inputs.Input:
            try:
                weights = path.read_bytes()
            except OSError as error:
                return inputs.OrderFailed(order.action, f"weights: {error}")
            path.unlink()
            found = Digest.of(weights)
            if found != order.weights.digest:
                text = f"weights: promised {order.weights.digest.short}, {found.short} lie here"
                return inputs.OrderFailed(order.action, text)
            return score(order, state, fresh, weights, self._parts.device)

        self._parts.scoring.submit(job)

    def _fresh(self, name: Name) -> Fresh:
        return Fresh(name, self._parts.store.payload(name))

    def _weights_path(self, digest: Digest) -> Path:
        return self._parts.incoming / digest


def _warn_of_weights(request: FetchWeights, error: BaseException) -> None:
    action = request.order.action
    said = about("weights.not_fetched", index=action)
    log.warning("weights of order %d: %s", action, error, extra=said)
