"""A world without inhabitants: a clock and a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.simulator.virtual.loop import Loop
from fleetledger.simulator.virtual.stopwatch import Stopwatch


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
