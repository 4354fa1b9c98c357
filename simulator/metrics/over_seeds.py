"""Means over seeds, and differences between two runs with the same seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fleetledger.runtime.strict import Strict

CONFIDENCE = 0.95


class Summary(Strict):
    """A number over seeds."""

    mean: float
    deviation: float | None
    """Sample standard deviation (divided by n - 1); None for one seed."""
    count: int

    def __float__(self) -> float:
        return self.mean

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.4f}"
        return f"{self.mean:.4f}{spread}"

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of Student's t for the mean; None for one seed."""
        if self.deviation is None:
            return None
        return _t_quantile(self.count - 1) * self.deviation / math.sqrt(self.count)


class PairedDifference(Strict):
    """The second run minus the first, seed by seed."""

    mean: float
    deviation: float | None
    low: float | None
    """Ends of the 95 % interval of Student's t for the mean; None for one seed."""
    high: float | None
    count: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def summary(values: Sequence[float]) -> Summary:
    """Return mean and sample deviation of at least one value."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Summary(mean=float(np.mean(values)), deviation=deviation, count=len(values))


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float]
) -> PairedDifference | None:
    """Compare two runs by the seeds that both have; None when they share none.

    The same seed gives both runs the same classes, stages and data, so what the draw did to both
    drops out of the difference.
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return None
    of = summary([second[seed] - first[seed] for seed in shared])
    half = of.half_width
    if half is None:
        return PairedDifference(mean=of.mean, deviation=None, low=None, high=None, count=1)
    return PairedDifference(
        mean=of.mean,
        deviation=of.deviation,
        low=of.mean - half,
        high=of.mean + half,
        count=of.count,
    )


def _t_quantile(degrees: int) -> float:
    """Return the quantile of Student's t that leaves (1 - 0.95) / 2 above it.

    Found by bisection of theta = atan(t / sqrt(degrees)) in 0..pi/2, to the last digits of a float.
    """
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _share_within(middle, degrees) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(degrees)


def _share_within(theta: float, degrees: int) -> float:
    """Return the probability that |t| is at most tan(theta) * sqrt(degrees).

    A finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    odd = degrees % 2
    square = math.cos(theta) ** 2
    term = math.cos(theta) if odd else 1.0
    total = 0.0
    for power in range(2 + odd, degrees + 1, 2):
        total += term
        term *= square * (power - 1) / power
    total *= math.sin(theta)
    return 2 / math.pi * (theta + total) if odd else total
