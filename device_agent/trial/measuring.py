"""How long models take, and whether their runs leave memory behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

MIN_RUNS = 4
MAX_RUNS = 20
SECONDS = 1.0
"""After so long no further run is begun, unless there were too few."""

Run = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """What some runs of a model took."""

    seconds: float
    """The shortest."""
    former_seconds: float | None
    grown_bytes: int
    """Resident memory after the last run, less that after the first."""
    runs: int


def measure_runs(
    run: Run,
    former: Run | None,
    resident_bytes: Callable[[], int],
    seconds: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Run a model and the former one in turn, so that both meet the same machine.

    The shortest run counts: what else the machine does only makes runs longer.
    """
    new, old, began = [], [], seconds()
    after_first = 0
    for done in range(1, MAX_RUNS + 1):
        new.append(_timed(run, seconds))
        if former is not None:
            old.append(_timed(former, seconds))
        if done == 1:
            after_first = resident_bytes()
        if done >= MIN_RUNS and seconds() - began > SECONDS:
            break
    grown = resident_bytes() - after_first
    return Measured(min(new), min(old) if old else None, grown, len(new))


def _timed(run: Run, seconds: Callable[[], float]) -> float:
    began = seconds()
    run()
    return seconds() - began
