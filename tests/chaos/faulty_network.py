"""A faulty virtual network: messages vanish, come twice, or late and out of order.

What a program publishes may vanish on its way to the broker, and what the broker delivers on its
way to each receiver; both happens to real messages of QoS 1 as well (docs/transport.md). Once the
faults are over, the network is the ordinary one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from fleetledger.simulator.virtual.loop import Loop
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.memory import BrokerSession, InMemoryBroker, InMemoryConnection
from tests.chaos.faults import NetworkFaults, dice
from tests.chaos.network import VirtualConnection, VirtualNetwork

LATENCY_SECONDS = 0.02


class FaultyNetwork(VirtualNetwork):
    """Carries messages with the faults of one run, and counts what it does to them."""

    def __init__(
        self, loop: Loop, network_faults: NetworkFaults, seed: int, tally: Counter[str]
    ) -> None:
        super().__init__(loop, LATENCY_SECONDS, seed)
        self.under_way = 0
        """Deliveries that have not arrived yet."""
        self.receipts: list[OutgoingMessage] = []
        """Everything that the coordinator published as a receipt, arrived or not."""
        self.calm_since = network_faults.until
        """When the last trouble is over, of those that are known by now."""
        self._loop = loop
        self._network_faults = network_faults
        self._dice = dice(f"{seed}/network")
        self._tally = tally
        self._newest: WeakKeyDictionary[BrokerSession, float] = WeakKeyDictionary()

    def route(self, message: OutgoingMessage, user: str | None) -> bool:
        """Take a message from a program, unless it vanishes on the way."""
        if message.topic.endswith("/rcpt") and "/proxy/" not in message.topic:
            self.receipts.append(message)
        if self._is_faulty and self._dice.random() < self._network_faults.loss / 2:
            self._tally["messages lost"] += 1
            return True
        return super().route(message, user)

    def disturbed_until(self, moment: float) -> None:
        """Note that a message, a connection or a program is away until then."""
        self.calm_since = max(self.calm_since, moment)

    def deliver(
        self, session: BrokerSession, message: OutgoingMessage, qos: int, *, retained: bool
    ) -> None:
        """Bring a message to a session never, once or twice, each time after a time of its own.

        In clear network faults it comes once, and after those that were sent before it.
        """
        for delay in self._delays():
            arrival = self._loop.clock.now + LATENCY_SECONDS * (0.5 + self._dice.random()) + delay
            if not self._is_faulty:
                arrival = max(arrival, self._newest.get(session, 0.0))
                self._newest[session] = arrival
            self.under_way += 1
            if delay:
                self.disturbed_until(arrival)
            put = functools.partial(self._arrive, session, message, qos, retained=retained)
            self._loop.at(arrival, put)

    def cut(self, client_id: str, seconds: float) -> None:
        """Lose a client's connection, so that its will is published; it returns after `seconds`."""
        session = self._sessions.get(client_id)
        connection = session.connection if session is not None else None
        if connection is None:
            return
        self._tally["connections cut"] += 1
        self.detach(connection, "connection lost", clean=False)
        back = self._loop.clock.now + seconds
        self.disturbed_until(back)
        self._loop.at(back, functools.partial(self._return, connection))

    def end(self, connection: VirtualConnection) -> None:
        """Lose the connection of a program that has ended; it does not return."""
        connection.on_event = None
        self.detach(connection, "its program ended", clean=False)

    @property
    def _is_faulty(self) -> bool:
        return self._loop.clock.now < self._network_faults.until

    def _delays(self) -> Iterator[float]:
        network_faults, dice = self._network_faults, self._dice
        if not self._is_faulty:
            yield 0.0
            return
        if dice.random() < network_faults.loss:
            self._tally["messages lost"] += 1
            return
        copies = 2 if dice.random() < network_faults.duplicate else 1
        self._tally["messages doubled"] += copies - 1
        for _ in range(copies):
            late = dice.random() < network_faults.late
            self._tally["messages late"] += late
            yield dice.uniform(0, network_faults.late_seconds) if late else 0.0

    def _arrive(
        self, session: BrokerSession, message: OutgoingMessage, qos: int, *, retained: bool
    ) -> None:
        self.under_way -= 1
        InMemoryBroker.deliver(self, session, message, qos, retained=retained)

    def _return(self, connection: InMemoryConnection) -> None:
        assert isinstance(connection, VirtualConnection)
        # Unless its program has ended, or it came back with a restart of the broker.
        if connection.on_event is not None and not connection.connected:
            self.attach(connection)
