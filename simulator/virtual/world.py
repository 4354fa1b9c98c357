"""Worlds without inhabitants: a clock and a loop; in a virtual one a network, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.simulator.virtual.clock import BEGINNING_NS, VirtualClock
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.simulator.virtual.network import VirtualNetwork
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.transport.faults import Faults


@dataclass(frozen=True)
class World:
    """What everybody in a world shares."""

    loop: Loop
    stopwatch: Stopwatch

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.loop.clock.now

    def run(self, until: Callable[[], bool], patience: Callable[[], float]) -> bool:
        """Let things happen until something is so; return whether it came to that.

        `patience` gives the time after which there is no hope left.
        """
        while not until():
            if self.loop.next_time() > patience():
                return False
            self.loop.step()
        return True


@dataclass(frozen=True)
class VirtualWorld(World):
    """World in which programs speak over a network."""

    network: VirtualNetwork

    @classmethod
    def made(
        cls,
        seed: int,
        latency_seconds: float,
        *,
        time_ns: int = BEGINNING_NS,
        faults: Faults | None = None,
    ) -> VirtualWorld:
        """Return a world in which it is `time_ns` and nothing has happened."""
        loop = Loop(VirtualClock(time_ns))
        network = VirtualNetwork(loop, latency_seconds, seed, faults=faults)
        return cls(loop, Stopwatch(), network)
