"""The time that a run may take, shared out among what is left to measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


class OutOfTimeError(RuntimeError):
    """What is being measured does not fit into what is left of the budget."""


@dataclass(frozen=True)
class Budget:
    """When a run has to be over, by a clock."""

    seconds: float
    ends: float
    clock: Clock = time.perf_counter

    @classmethod
    def starting(cls, seconds: float, clock: Clock = time.perf_counter) -> Budget:
        """Return a budget of so many seconds from now."""
        return cls(seconds, clock() + seconds, clock)

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.ends - self.clock()

    def share(self, entries: int) -> Share:
        """Return the share of the next of so many entries that are left."""
        return Share(self, self.clock() + max(self.left(), 0.0) / entries)


@dataclass(frozen=True)
class Share:
    """The part of a budget that one entry should take; a warm-up may overdraw it."""

    budget: Budget
    ends: float

    def repeat(self, run: Callable[[], object], most: int, spare_runs: float = 0.0) -> list[float]:
        """Warm up by one run, and return the seconds of those that then fit, `most` at most.

        One is measured at least, if it needs more than the share; raises `OutOfTimeError` where
        not even that fits into the whole budget. Time for `spare_runs` more is left over.
        """
        slowest = self._seconds(run)
        seconds: list[float] = []
        while len(seconds) < most:
            done = self.budget.clock() + slowest * (1 + spare_runs)
            if done > self.budget.ends and not seconds:
                raise OutOfTimeError(f"a run takes {slowest:.1f} s, more than is left")
            if done > self.ends and seconds:
                break
            seconds.append(self._seconds(run))
            slowest = max(slowest, seconds[-1])
        return seconds

    def _seconds(self, run: Callable[[], object]) -> float:
        start = self.budget.clock()
        run()
        return self.budget.clock() - start
