"""Block exchanges in a virtual world: stepped by the loop, and sharing what many fetch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fleetledger.simulator.virtual.loop import Endpoint, Loop
from fleetledger.simulator.virtual.network import VirtualConnection
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.transfer import BlockExchange, Party


class SteppedExchange(BlockExchange):
    """A block exchange that takes its turns when the loop lets it."""

    def __init__(
        self,
        connection: VirtualConnection,
        party: Party,
        loop: Loop,
        endpoint: Callable[[Callable[[], float]], Endpoint],
    ) -> None:
        """`endpoint` makes what is stepped by the loop."""
        super().__init__(
            connection,
            party.topics,
            party.sender,
            device=party.device,
            clock=loop.clock.readings,
        )
        self.own = connection
        """Its connection."""
        self._loop = loop
        self.endpoint = endpoint(self._turns)
        connection.on_event = self.endpoint.ask

    def start(self) -> None:
        """Begin; the loop gives it its turns."""
        self.begin()

    def stop(self) -> None:
        """End, and take no turns any more."""
        super().stop()
        self.endpoint.end()

    def _turns(self) -> float:
        """Take all turns that are due; return when the next one is."""
        while True:
            self.turn(0)
            due = self.due()
            if not self.own.waits and due > self._loop.clock.now:
                return due


class VirtualExchange(SteppedExchange):
    """The exchange of somebody in a virtual world."""

    def __init__(self, world: VirtualWorld, party: Party) -> None:
        connection = world.network.connection(f"{party.sender.name}.{party.role}")
        super().__init__(connection, party, world.loop, partial(Endpoint, world.loop))
