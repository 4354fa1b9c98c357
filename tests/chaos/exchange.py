"""Block exchanges that the loop steps."""

from __future__ import annotations

from collections.abc import Callable

from fleetledger.simulator.virtual.loop import Endpoint, Loop
from fleetledger.transport.transfer import BlockExchange, Party
from tests.chaos.network import VirtualConnection


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
