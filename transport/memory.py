"""A broker without a network: same promises as MQTT, for simulator and tests.

It keeps sessions, retained messages and wills, delivers QoS 1 again after a reconnect when it was
not acknowledged, bounds its queues, and can be told to misbehave. Nothing runs in the background:
messages wait in their session until the reader takes them.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetledger.schemas.envelope import MAX_ENVELOPE_BYTES
from fleetledger.schemas.offers import MAX_BLOCK_SIZE
from fleetledger.transport.access import Action, is_allowed
from fleetledger.transport.errors import NotAuthorisedError
from fleetledger.transport.faults import Faults
from fleetledger.transport.filters import matches
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory_connection import ClientCredentials, InMemoryConnection
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
