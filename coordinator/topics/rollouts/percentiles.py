"""The 95th percentile of a histogram of latencies, exact on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fleetledger.coordinator.topics.rollouts.scope import exact
from fleetledger.schemas.rollouts import LATENCY_BINS, LATENCY_FIRST_SECONDS, LATENCY_RATIO

_EDGES = tuple(
    exact(LATENCY_FIRST_SECONDS) * exact(LATENCY_RATIO) ** number
    for number in range(LATENCY_BINS + 1)
)
"""Where bins begin, in seconds."""


def p95(histogram: Sequence[int]) -> Fraction:
    """Return the 95th percentile of latencies in seconds, linear within its bin.

    `histogram` has at most `LATENCY_BINS` counts, at least one above 0.
    """
    rank = -(-95 * sum(histogram) // 100)
    for number, count in enumerate(histogram):
        if count and rank <= count:
            begins, ends = _EDGES[number], _EDGES[number + 1]
            return begins + (ends - begins) * Fraction(rank, count)
        rank -= count
    raise ValueError("no latencies; there is no percentile of nothing")
