"""Durations of models, and the memory that their runs leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MIN_RUNS = 4
MAX_RUNS = 20
SECONDS = 1.0
"""After so long no further run is begun, unless there were too few."""

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Clocks:
    """By what time is taken; of the processor's there may be none, as where a GPU computes."""

    wall: Clock = time.perf_counter
    processor: Clock | None = time.process_time


@dataclass(frozen=True)
class TrialMeasurement:
    """What some runs of a model took."""

    seconds: float
    """The shortest, by the clock on the wall."""
    former_seconds: float | None
    slower: float | None
    """How many times the former model's time it takes; None where there is no former one."""
    grown_bytes: int
    """Resident memory after the last run, less that after the first."""
    runs: int


@dataclass
class _Taken:
    shortest: float = float("inf")
    processor: float = 0.0

    def run(self, run: Run, clocks: Clocks) -> None:
        used = clocks.processor() if clocks.processor else 0.0
        began = clocks.wall()
        run()
        self.shortest = min(self.shortest, clocks.wall() - began)
        if clocks.processor:
            self.processor += clocks.processor() - used


@dataclass
class _Pair:
    new: _Taken = field(default_factory=_Taken)
    former: _Taken = field(default_factory=_Taken)

    def slower(self) -> float:
        """Return the lesser of two quotients: of the shortest runs, and of the processor's time.

        A busy machine can interrupt always the same of two models that run in turn, and the
        processor's time is counted in ticks of some milliseconds; what is slower is so by both.
        """
        by_wall = self.new.shortest / max(self.former.shortest, 1e-9)
        if not self.former.processor:
            return by_wall
        return min(by_wall, self.new.processor / self.former.processor)


def measure_runs(
    run: Run, former: Run | None, resident_bytes: Callable[[], int], clocks: Clocks
) -> TrialMeasurement:
    """Run a model and the former one in turn, so that both meet the same machine."""
    taken, began, after_first = _Pair(), clocks.wall(), 0
    for done in range(1, MAX_RUNS + 1):
        taken.new.run(run, clocks)
        if former is not None:
            taken.former.run(former, clocks)
        if done == 1:
            after_first = resident_bytes()
        if done >= MIN_RUNS and clocks.wall() - began > SECONDS:
            break
    return TrialMeasurement(
        taken.new.shortest,
        taken.former.shortest if former is not None else None,
        taken.slower() if former is not None else None,
        resident_bytes() - after_first,
        done,
    )
