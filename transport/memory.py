"""A broker without a network: same promises as MQTT, for simulator and tests.

It keeps sessions, retained messages and wills, delivers QoS 1 again after a reconnect when it was
not acknowledged, bounds its queues, and can be told to misbehave. Nothing runs in the background:
messages wait in their session until the reader takes them.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleetledger.schemas.envelope import MAX_ENVELOPE_BYTES
from fleetledger.schemas.offers import MAX_BLOCK_SIZE
from fleetledger.transport.access import Action, is_allowed
from fleetledger.transport.errors import (
    BrokerUnreachableError,
    NotAuthorisedError,
    NotConnectedError,
    PayloadTooLargeError,
    TransportError,
)
from fleetledger.transport.faults import Faults
from fleetledger.transport.filters import matches
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.meter import Meter
from fleetledger.transport.subscriptions import Subscriptions, is_wild

BLOCK_SIZE = MAX_BLOCK_SIZE
"""Bytes of a block that goes through memory: as many as may be, for nothing waits on a link behind
it, and each costs about as much as the next, however large."""


@dataclass(eq=False)
class BrokerSession:
    """What the broker knows of a client id, connected or not."""

    user: str | None
    queue: deque[IncomingMessage] = field(default_factory=deque)
    unacknowledged: dict[object, IncomingMessage] = field(default_factory=dict)
    connection: InMemoryConnection | None = None


class InMemoryBroker:
    """Sessions, retained messages and routing under one lock; see the module for what it promises.

    With `users` (name to password) it authenticates and applies the rules of `transport.access`,
    as the real brokers do; without, everybody may do everything.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        *,
        faults: Faults | None = None,
        max_queued: int = 1_000,
    ) -> None:
        self.lock = threading.RLock()
        self.faults = faults or Faults()
        self.dropped = 0
        """Messages that did not fit a session's queue."""
        self._users = users
        self._max_queued = max_queued
        self._sessions: dict[str, BrokerSession] = {}
        self._subscriptions = Subscriptions()
        self._retained: dict[str, OutgoingMessage] = {}
        self._tokens = itertools.count(1)

    def connection(
        self,
        client_id: str,
        *,
        user: str | None = None,
        password: str | None = None,
        will: OutgoingMessage | None = None,
        max_payload: int = MAX_ENVELOPE_BYTES,
    ) -> InMemoryConnection:
        """Return a connection for `client_id`, not yet started."""
        identity = ClientCredentials(client_id, user, password)
        return InMemoryConnection(self, identity, will, max_payload)

    def drop_connection(self, client_id: str, *, comes_back: bool = True) -> None:
        """Cut a client off without a goodbye: its will is published; by default it returns."""
        with self.lock:
            connection = self._sessions[client_id].connection
            if connection is None:
                return
            self.detach(connection, "connection lost", clean=False)
            if comes_back:
                self.attach(connection)

    def restart(self) -> None:
        """Die and come back without sessions and retained messages; no wills; clients return."""
        with self.lock:
            connections = [s.connection for s in self._sessions.values() if s.connection]
            self._sessions.clear()
            self._subscriptions.clear()
            self._retained.clear()
            for connection in connections:
                connection.lost("the broker restarted")
            for connection in connections:
                self.attach(connection)

    def attach(self, connection: InMemoryConnection) -> None:
        """Log `connection` in: find or make its session, or refuse it with a `Problem`."""
        with self.lock:
            identity = connection.identity
            if not self._authentic(identity):
                connection.refused(
                    NotAuthorisedError(
                        f"user {identity.user!r}: the broker refuses this user name and password; "
                        "check both"
                    )
                )
                return
            present = identity.client_id in self._sessions
            session = self._sessions.setdefault(identity.client_id, BrokerSession(identity.user))
            if session.connection not in (None, connection):
                self.detach(session.connection, "taken over by the same client id", clean=False)
            session.user, session.connection = identity.user, connection
            self._redeliver(session)
            connection.accepted(session_present=present)

    def detach(self, connection: InMemoryConnection | None, reason: str, *, clean: bool) -> None:
        """Log `connection` out; its session stays, and its will is published unless `clean`."""
        with self.lock:
            if connection is None:
                return
            session = self._sessions.get(connection.identity.client_id)
            if session is None or session.connection is not connection:
                return
            session.connection = None
            connection.lost(reason)
            if connection.will is not None and not clean:
                self.route(connection.will, session.user)

    def add_filters(self, client_id: str, filters: Mapping[str, int]) -> None:
        """Subscribe a client and hand it the retained messages that match."""
        with self.lock:
            session = self._sessions[client_id]
            self._subscriptions.add(client_id, filters)
            for message, qos in self._kept_for(filters):
                if self._may(session.user, "receive", message.topic):
                    self.deliver(session, message, min(qos, message.qos), retained=True)

    def remove_filters(self, client_id: str, filters: Collection[str]) -> None:
        """Let a client's session leave filters."""
        with self.lock:
            self._subscriptions.remove(client_id, filters)

    def route(self, message: OutgoingMessage, user: str | None) -> bool:
        """Deliver `message` to every session that wants it; False if `user` may not publish it."""
        with self.lock:
            if not self._may(user, "publish", message.topic):
                return False
            if message.retain:
                self._retain(message)
            for client_id, qos in self._subscriptions.wanting(message.topic).items():
                session = self._sessions[client_id]
                if self._may(session.user, "receive", message.topic):
                    self.deliver(session, message, min(qos, message.qos), retained=False)
            return True

    def take(self, client_id: str) -> IncomingMessage | None:
        """Remove and return the next message of a session; QoS 1 stays until acknowledged."""
        with self.lock:
            session = self._sessions[client_id]
            if not session.queue:
                return None
            sent, token = session.queue.popleft(), next(self._tokens)
            message = IncomingMessage(sent.topic, sent.payload, sent.qos, sent.retained, token)
            if message.qos:
                session.unacknowledged[message.token] = message
            return message

    def waiting(self, client_id: str) -> int:
        """Return how many messages wait to be taken by a client."""
        session = self._sessions.get(client_id)
        return len(session.queue) if session is not None else 0

    def acknowledge(self, client_id: str, token: object) -> None:
        """Forget a delivered message of QoS 1."""
        with self.lock:
            session = self._sessions.get(client_id)
            if session is not None:
                session.unacknowledged.pop(token, None)

    def deliver(
        self, session: BrokerSession, message: OutgoingMessage, qos: int, *, retained: bool
    ) -> None:
        """Put a message into a session's queue; a network with latency does so later."""
        if session.connection is None and qos == 0:
            return
        if len(session.queue) >= self._max_queued:
            self.dropped += 1
            return
        self.faults.enqueue(
            session.queue, IncomingMessage(message.topic, message.payload, qos, retained)
        )
        if session.connection is not None:
            session.connection.notify()

    def _kept_for(self, filters: Mapping[str, int]) -> list[tuple[OutgoingMessage, int]]:
        """Return the retained messages that filters match, each with the highest QoS."""
        if any(map(is_wild, filters)):
            kept = [
                (m, [q for f, q in filters.items() if matches(f, m.topic)])
                for m in self._retained.values()
            ]
            return [(message, max(qos)) for message, qos in kept if qos]
        return [(self._retained[f], q) for f, q in filters.items() if f in self._retained]

    def _redeliver(self, session: BrokerSession) -> None:
        kept = [message for message in session.queue if message.qos]
        session.queue = deque([*session.unacknowledged.values(), *kept])
        session.unacknowledged.clear()

    def _retain(self, message: OutgoingMessage) -> None:
        if message.payload:
            self._retained[message.topic] = message
        else:
            self._retained.pop(message.topic, None)

    def _authentic(self, identity: ClientCredentials) -> bool:
        if self._users is None:
            return True
        known = self._users.get(identity.user or "")
        return known is not None and secrets.compare_digest(
            known.encode(), (identity.password or "").encode()
        )

    def _may(self, user: str | None, action: Action, topic: str) -> bool:
        return self._users is None or is_allowed(user or "", action, topic)


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

    def unsubscribe(self, *filters: str) -> None:
        """Leave filters, now and whenever the session was lost."""
        with self._changed:
            for left in filters:
                self._filters.pop(left, None)
            self._broker.remove_filters(self.identity.client_id, filters)

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
