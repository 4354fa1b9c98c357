"""World of light agents that act: what is said arrives after a while, and nothing is encoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Literal, TypeAlias

from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Act, Loop
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.world import World
from fleetledger.transport.pacing import Pacer, RequestedBlock

Way: TypeAlias = tuple[Literal["from", "to"], DeviceId]


@dataclass(frozen=True)
class TimedWorld(World):
    """Carries messages between devices and their coordinator; on each way they keep their order."""

    latency_seconds: float
    """Mean time of a message."""
    random: Random
    arrivals: dict[Way, float] = field(default_factory=dict)
    """When the last message of each way arrives."""

    @classmethod
    def made(cls, seed: int, latency_seconds: float, time_ns: int) -> TimedWorld:
        """Return a world in which it is `time_ns` and nothing has happened."""
        random = Random(f"network/{seed}")  # noqa: S311 - repeatable, no secret
        return cls(Loop(VirtualClock(time_ns)), Stopwatch(), latency_seconds, random)

    def carry(self, way: Way, act: Act) -> None:
        """Have `act` called when a message has arrived."""
        arrival = self.now + self.latency_seconds * (0.5 + self.random.random())
        self.arrivals[way] = arrival = max(arrival, self.arrivals.get(way, 0.0))
        self.loop.at(arrival, act)


@cache
def fetch_seconds(offer: Offer, round_trip: float) -> float:
    """Return how long its list of hashes and its blocks take, as many at once as an agent asks.

    The list of a single block is in the offer.
    """
    pacer, now = Pacer(offer.block_size), 0.0
    for size in (offer.list_size, offer.size) if offer.block_count > 1 else (offer.size,):
        missing = -(-size // offer.block_size)
        while missing > 0:
            asked, now = RequestedBlock(now, pacer.delivered, first=True), now + round_trip
            for _ in range(came := min(missing, pacer.window)):
                pacer.arrived(min(size, offer.block_size), asked, now)
            missing -= came
    return now
