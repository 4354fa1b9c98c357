"""Block exchanges in a virtual world: stepped by the loop, and sharing what many fetch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.virtual.loop import Endpoint, Loop
from fleetledger.simulator.virtual.network import VirtualConnection
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.meter import Counts
from fleetledger.transport.transfer import BlockExchange, Party

if TYPE_CHECKING:
    from fleetledger.simulator.virtual.files import Arrival, SharedFiles


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


class SharingExchange:
    """A device's exchange; what the coordinator serves comes out of the shared files.

    It connects only when something really has to cross: most devices fetch only what is shared,
    and attach what they send.
    """

    __slots__ = ("_arrivals", "_charged", "_crossing", "_files", "_party", "_world", "on_failure")

    def __init__(self, world: VirtualWorld, party: Party, files: SharedFiles) -> None:
        self.on_failure: Callable[[Exception], None] | None = None
        """Told nothing: what goes wrong in the loop ends the loop."""
        self._world = world
        self._party = party
        self._files = files
        self._charged = Counts()
        self._arrivals: tuple[Arrival, ...] = ()
        self._crossing: VirtualExchange | None = None

    def start(self) -> None:
        """Begin; nothing crosses yet."""

    def stop(self) -> None:
        """End; what is not here yet does not come."""
        if self._crossing is not None:
            self._crossing.stop()
        self._arrivals = ()

    def serve(self, data: bytes | Path | BlockSource) -> Offer:
        """Answer requests for `data` from now on; return the offer."""
        return self._connected().serve(data)

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what requests for this data are answered from; None if they are not."""
        return self._crossing.source(digest) if self._crossing is not None else None

    def withdraw_all_but(self, keep: Collection[Digest]) -> None:
        """Serve nothing any longer that is not to be kept."""
        if self._crossing is not None:
            self._crossing.withdraw_all_but(keep)

    def fetch(
        self,
        offer: Offer,
        destination: Path,
        peer: DeviceId,
        *,
        seconds: float,
        url: str | None = None,
    ) -> Future[Path]:
        """Fetch what was offered; the future and its errors are those of `BlockExchange`."""
        arrival = self._files.send(offer, destination, peer)
        if arrival is None:
            return self._connected().fetch(offer, destination, peer, seconds=seconds)
        self._arrivals += (arrival,)
        return arrival.future

    def cancel(self, digest: Digest) -> None:
        """End the fetch of data that is not needed any more; what is shared comes anyway."""
        if self._crossing is not None:
            self._crossing.cancel(digest)

    def traffic(self) -> Counts:
        """Return what crossed, and what shared files were charged with."""
        crossed = self._crossing.traffic() if self._crossing is not None else Counts()
        return self._charged + crossed

    def next_arrival(self) -> float:
        """Return when the next shared file arrives; infinity if none is on its way."""
        return min((arrival.when for arrival in self._arrivals), default=math.inf)

    def receive(self, device: DeviceId, now: float) -> None:
        """Let the shared files arrive whose time has come."""
        due = [arrival for arrival in self._arrivals if arrival.when <= now]
        self._arrivals = tuple(arrival for arrival in self._arrivals if arrival.when > now)
        for arrival in due:
            self._charged += arrival.cost.of(device)
            self._files.give(arrival)

    def _connected(self) -> VirtualExchange:
        if self._crossing is None:
            self._crossing = VirtualExchange(self._world, self._party)
            self._crossing.begin()
        return self._crossing
