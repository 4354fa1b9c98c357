"""How our time compares with a rival's, and whether what both learned may be compared."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

Side = Mapping[str, Any]
"""What was measured of a side: `runs`, and perhaps `watched`."""

DEVIATIONS = 3.0
"""By which accuracies may differ: standard deviations of the difference of two shares."""


class Spread(NamedTuple):
    """Median, least and most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return it; there is one value at least."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        """Return it for a table's cell."""
        return f"{self.median:.3g} ({self.least:.3g} to {self.most:.3g})"


def later(rounds: Sequence[float]) -> Sequence[float]:
    """Return the rounds without the first, and without the last where more than two are left.

    In the first everybody starts processes or reads libraries; in the last a stage of ours ends.
    """
    return rounds[1:-1] if len(rounds) > 2 else rounds[1:]


def ratio(ours: Side, theirs: Side, clock: str) -> Spread:
    """Return our seconds of a round as a share of theirs, run for run of the same turn.

    `clock` is `round_seconds`, on the wall, or `round_process_seconds`. Where a side has fewer runs
    its last one stands for those that it lacks.
    """
    turns = max(len(ours["runs"]), len(theirs["runs"]))
    return Spread.of(
        [_turn(ours, turn, clock) / _turn(theirs, turn, clock) for turn in range(turns)]
    )


def _turn(side: Side, turn: int, clock: str) -> float:
    runs = side["runs"]
    return statistics.median(later(runs[min(turn, len(runs) - 1)][clock]))


def accuracy(side: Side) -> Spread | None:
    """Return the accuracies at the end of all runs; None where nobody trains."""
    found = [run["accuracy"] for run in side["runs"] if "accuracy" in run]
    return Spread.of(found) if found else None


def apart(ours: float, theirs: float, samples: int) -> bool:
    """Return whether two accuracies on so many samples differ by more than chance explains.

    The samples are the same for both, so that chance alone differs by less than the bound.
    """
    share = (ours + theirs) / 2
    return abs(ours - theirs) > DEVIATIONS * sqrt(2 * share * (1 - share) / samples)
