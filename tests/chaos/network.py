"""The in-memory broker with latency: a message reaches a session's queue some time after.

Each delivery takes between half and one and a half times the mean latency, drawn from the seed.
What one device sends, or is sent, arrives in the order in which it was sent.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from random import Random

from fleetledger.schemas.envelope import MAX_ENVELOPE_BYTES
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.transport.faults import Faults
from fleetledger.transport.interface import Event, OutgoingMessage
from fleetledger.transport.memory import (
    BrokerSession,
    ClientCredentials,
    InMemoryBroker,
    InMemoryConnection,
)

_MOST_QUEUED = 1_000_000
"""Messages of one session: a thousand devices may speak to the coordinator at once."""
_MOST_REMEMBERED = 10_000


class VirtualConnection(InMemoryConnection):
    """A connection whose owner is told of events instead of waiting for them."""

    on_event: Callable[[], None] | None = None

    def __init__(
        self,
        broker: VirtualNetwork,
        identity: ClientCredentials,
        will: OutgoingMessage | None,
        max_payload: int,
    ) -> None:
        super().__init__(broker, identity, will, max_payload)
        self._changed = broker.changed  # nobody waits for it, so one is enough for all

    def next_event(self, seconds: float) -> Event | None:
        """Return the next event or message if there is one now."""
        return self.take()

    @property
    def waits(self) -> bool:
        """Whether there is something to take now."""
        return bool(self._events) or self._broker.waiting(self.identity.client_id) > 0

    def notify(self) -> None:
        """Tell the owner."""
        if self.on_event is not None:
            self.on_event()


class VirtualNetwork(InMemoryBroker):
    """Carries the messages of one virtual world."""

    def __init__(
        self, loop: Loop, latency_seconds: float, seed: int, *, faults: Faults | None = None
    ) -> None:
        super().__init__(faults=faults, max_queued=_MOST_QUEUED)
        self.changed = threading.Condition(self.lock)
        self._loop = loop
        self._latency = latency_seconds
        self._random = Random(f"network/{seed}")
        self._last: dict[tuple[int, str], float] = {}
        """When something last arrives, by session and whose it is."""
        self._most = _MOST_REMEMBERED

    def connection(
        self,
        client_id: str,
        *,
        user: str | None = None,
        password: str | None = None,
        will: OutgoingMessage | None = None,
        max_payload: int = MAX_ENVELOPE_BYTES,
    ) -> VirtualConnection:
        """Return a connection for `client_id`, not yet started."""
        return VirtualConnection(
            self, ClientCredentials(client_id, user, password), will, max_payload
        )

    def deliver(
        self, session: BrokerSession, message: OutgoingMessage, qos: int, *, retained: bool
    ) -> None:
        """Put a message into a session's queue when it arrives there."""
        arrival = self._loop.clock.now + self._latency * (0.5 + self._random.random())
        whose = (id(session), message.topic.rpartition("/")[0])
        self._last[whose] = arrival = max(arrival, self._last.get(whose, 0.0))
        if len(self._last) > self._most:
            now = self._loop.clock.now
            self._last = {key: last for key, last in self._last.items() if last > now}
            self._most = max(_MOST_REMEMBERED, 2 * len(self._last))
        put = functools.partial(super().deliver, session, message, qos, retained=retained)
        self._loop.at(arrival, put)
