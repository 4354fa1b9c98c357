"""Search of a rate until it was tried on both sides of the best, and of a number of passes; pure.

A tried rate has a score, or none where its run failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt

LEAST_RATES, MOST_RATES = 4, 10
"""Rates that are tried at least, and at most."""
Scores = Mapping[float, float | None]


def next_rate(tried: Scores, first: Sequence[float]) -> float | None:
    """Return the rate to try next: `first`, then beyond an edge that is best, then halfway.

    None where at least four were tried and the best has tried ones on both sides, where there
    are as many as are tried at most, or where all failed. Rates are rounded to three digits.
    """
    missing = [rate for rate in first if rate not in tried]
    if missing:
        return missing[0]
    best, ordered = best_of(tried), sorted(tried)
    if best is None or len(ordered) >= MOST_RATES:
        return None
    place = ordered.index(best)
    if place == 0:
        return _rounded(ordered[0] ** 2 / ordered[1])
    if place == len(ordered) - 1:
        return _rounded(ordered[-1] ** 2 / ordered[-2])
    if len(ordered) >= LEAST_RATES:
        return None
    beside = max(ordered[place - 1], ordered[place + 1], key=lambda rate: _score(tried, rate))
    return _rounded(sqrt(ordered[place] * beside))


def best_of(tried: Scores) -> float | None:
    """Return the best rate, the smallest of equal ones; None where none has a score."""
    scored = sorted(rate for rate, score in tried.items() if score is not None)
    return max(scored, key=lambda rate: _score(tried, rate)) if scored else None


def at_edge(tried: Scores) -> bool:
    """Return whether the best rate is the least or the largest that was tried."""
    return best_of(tried) in (min(tried), max(tried))


def next_length(tried: Mapping[int, float], first: int, gain: float, most: int) -> int | None:
    """Return the next number of passes: doubled until a doubling gains less than `gain`.

    None if it did, or if `most` passes were tried.
    """
    if first not in tried:
        return first
    longest = max(tried)
    before = tried.get(longest // 2)
    converged = before is not None and tried[longest] - before < gain
    return None if converged or 2 * longest > most else 2 * longest


def _score(tried: Scores, rate: float) -> float:
    score = tried[rate]
    return -inf if score is None else score


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")
