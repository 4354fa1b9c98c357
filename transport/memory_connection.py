"""The client's side of the in-memory broker; `InMemoryBroker.connection` makes it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleetledger.transport.errors import (
    BrokerUnreachableError,
    NotAuthorisedError,
    NotConnectedError,
    PayloadTooLargeError,
    TransportError,
)
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.meter import Meter

if TYPE_CHECKING:
    from fleetledger.transport.memory import InMemoryBroker


@dataclass(frozen=True)
class ClientCredentials:
    """Who connects: client id, user name and password."""

    client_id: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)


class InMemoryConnection:
    """A `Connection` (see `transport.interface`) to an `InMemoryBroker`."""

    def __init__(
        self,
        broker: InMemoryBroker,
        identity: ClientCredentials,
        will: OutgoingMessage | None,
        max_payload: int,
    ) -> None:
        self.identity = identity
        self.will = will
        self.meter = Meter()
        self.max_payload = max_payload
        self._broker = broker
        self._changed = threading.Condition(broker.lock)
        self._filters: dict[str, int] = {}
        self._events: list[Event] = []
        self._attached = False
        self._was_connected = False
        self._woken = False
        self._refusal: TransportError | None = None

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted us."""
        return self._attached

    def start(self) -> None:
        """Connect; the outcome is an event."""
        self._broker.attach(self)

    def wait_connected(self, seconds: float) -> None:
        """Return if connected; raise the refusal, or `BrokerUnreachableError` after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._attached or self._refusal is not None, seconds)
            if self._attached:
                return
            raise self._refusal or BrokerUnreachableError("in memory: start() was not called")

    def stop(self) -> None:
        """Leave cleanly: the session stays, the will is not published."""
        self._broker.detach(self, "stopped", clean=True)

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Add filters, now and whenever the session was lost."""
        with self._changed:
            added = dict.fromkeys(filters, qos)
            self._filters.update(added)
            if self._attached:
                self._broker.add_filters(self.identity.client_id, added)

    def publish(self, message: OutgoingMessage) -> None:
        """Route `message`; raises as the interface says."""
        if len(message.payload) > self.max_payload:
            raise PayloadTooLargeError(message.topic, len(message.payload), self.max_payload)
        with self._changed:
            if not self._attached:
                raise NotConnectedError(message.topic)
            self.meter.sent(message.topic, len(message.payload))
            if not self._broker.route(message, self.identity.user):
                self._tell(
                    ConnectionProblem(NotAuthorisedError(f"{message.topic}: not ours to publish"))
                )

    def next_event(self, seconds: float) -> Event | None:
        """Return the next event or message, or None after `seconds` or when woken."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                event = self.take()
                remaining = end - time.monotonic()
                if event is not None or self._woken or remaining <= 0:
                    self._woken = False
                    return event
                self._changed.wait(remaining)

    def wake(self) -> None:
        """Make a waiting `next_event` return None now."""
        with self._changed:
            self._woken = True
            self.notify()

    def acknowledge(self, message: IncomingMessage) -> None:
        """Tell the broker that `message` is safe."""
        self._broker.acknowledge(self.identity.client_id, message.token)

    def accepted(self, *, session_present: bool) -> None:
        """Take the news from the broker: we are in."""
        self._attached, self._refusal = True, None
        self._tell(Connected(session_present))
        if not (session_present and self._was_connected):
            self._broker.add_filters(self.identity.client_id, self._filters)
        self._was_connected = True

    def lost(self, reason: str) -> None:
        """Take the news from the broker: the connection is gone."""
        self._attached = False
        self._tell(Disconnected(reason))

    def refused(self, error: TransportError) -> None:
        """Take the news from the broker: we may not come in."""
        self._refusal = error
        self._tell(ConnectionProblem(error))

    def notify(self) -> None:
        """Wake whoever reads: there is an event, a message or a call to `wake`."""
        self._changed.notify_all()

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self.notify()

    def take(self) -> Event | None:
        """Return the next event or message, if there is one now."""
        if self._events:
            return self._events.pop(0)
        message = self._broker.take(self.identity.client_id) if self._attached else None
        if message is not None:
            self.meter.received(message.topic, len(message.payload))
        return message
