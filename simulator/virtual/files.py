"""Files that many devices fetch: fetched once in full, then linked and charged.

The first time that a device wants a file it is fetched block by block, over a network of its own
with the same latency: real requests, real blocks, real checks. What that cost in bytes and in
virtual time every device is charged, and each gets a hard link to the one copy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.simulator.virtual.exchange import VirtualExchange
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.meter import Counts
from fleetledger.transport.transfer import Party

_BOOT = BootId("0" * 16)
_PATIENCE_SECONDS = 3600.0


@dataclass(frozen=True)
class Cost:
    """What fetching a file costs a device, in virtual seconds and in messages."""

    seconds: float
    counts: Counts
    name_bytes: int
    """Length of the name of the device that was the first; it is in every request."""

    def of(self, device: DeviceId) -> Counts:
        """Return the counts of a device, whose own name is in its requests."""
        longer = len(device) - self.name_bytes
        return self.counts + Counts(bytes_up=longer * self.counts.messages_up)


@dataclass
class Arrival:
    """A file on its way to a device."""

    when: float
    cost: Cost
    digest: Digest
    destination: Path
    future: Future[Path] = field(default_factory=Future)


@dataclass(frozen=True)
class BlobCache:
    """Where shared files come from and lie."""

    folder: Path
    topics: FleetTopics
    latency_seconds: float
    serving: Callable[[Digest], BlockSource | None]
    """Gives what the coordinator serves under a digest, if anything."""


class SharedFiles:
    """The files of one virtual world, by digest."""

    def __init__(self, cache: BlobCache, loop: Loop) -> None:
        self.folder = cache.folder
        self._cache = cache
        self._loop = loop
        self.costs: dict[Digest, Cost] = {}
        """Of the files that were fetched."""
        cache.folder.mkdir(parents=True, exist_ok=True)

    def send(self, offer: Offer, destination: Path, device: DeviceId) -> Arrival | None:
        """Return when a file will be at `destination`; None where nobody serves it."""
        cost = self.costs.get(offer.digest)
        if cost is None:
            source = self._cache.serving(offer.digest)
            if source is None:
                return None
            cost = self.costs[offer.digest] = self._fetched(source, device)
        return Arrival(self._loop.clock.now + cost.seconds, cost, offer.digest, destination)

    def give(self, arrival: Arrival) -> None:
        """Let a file arrive at a device."""
        if not arrival.destination.exists():
            os.link(self.folder / arrival.digest, arrival.destination)
        arrival.future.set_result(arrival.destination)

    def _fetched(self, source: BlockSource, device: DeviceId) -> Cost:
        """Fetch a file into the folder and return what that cost."""
        world, topics = VirtualWorld.made(0, self._cache.latency_seconds), self._cache.topics
        giving = VirtualExchange(world, Party(topics, Sender(topics.fleet, COORDINATOR, _BOOT)))
        taking = VirtualExchange(world, Party(topics, Sender(topics.fleet, device, _BOOT), device))
        for exchange in (giving, taking):
            exchange.begin()
        giving.serve(source)
        fetched = self.folder / f"{source.offer.digest}.fetched"
        future = taking.fetch(source.offer, fetched, device, seconds=_PATIENCE_SECONDS)
        world.run(future.done, lambda: _PATIENCE_SECONDS)
        future.result(0).replace(self.folder / source.offer.digest)
        return Cost(world.now, taking.traffic(), len(device))


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
