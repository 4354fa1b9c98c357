"""What is to be run, and which rate is next; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from benchmarks.papers.one_table.cases import LEAST_RATES, METHODS, MOST_RATES, SEEDS


@dataclass(frozen=True)
class Step:
    """One run: of a method at a rate, on a seed of the table or, without one, to choose a rate."""

    method: str
    rate: float | None
    seed: int | None

    @property
    def key(self) -> str:
        """Where it is kept in the results."""
        return f"seed {self.seed}" if self.seed is not None else f"{self.rate:g}"


def steps(
    names: list[str], seeds: list[int], results: Callable[[], Mapping[str, Any]]
) -> Iterator[Step]:
    """Yield what is still to be run; `results` gives what is known by then."""
    for name in names:
        method = METHODS[name]
        if method.rate and method.tuned_as is None:
            while (rate := next_rate(averages(results(), name), method.rates)) is not None:
                yield Step(name, rate, None)
        for seed in seeds:
            best = best_rate(results(), name)
            found = known(results(), "runs", name).get(f"seed {seed}")
            if found is None or found.get("rate") != best:
                yield Step(name, best, seed)


def known(results: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    """Return what is known of a method, by rate (`rates`) or by seed (`runs`)."""
    found: Mapping[str, Any] = results[kind].get(name, {})
    return found


def averages(results: Mapping[str, Any], name: str) -> dict[float, float]:
    """Return the average on held-out images by rate, of a method or of the one it is tuned as."""
    tried = known(results, "rates", METHODS[name].tuned_as or name)
    return {float(rate): float(run["average"]) for rate, run in tried.items()}


def next_rate(tried: Mapping[float, float], first: Sequence[float]) -> float | None:
    """Return the rate to try next: `first`, then beyond an edge that is best, then halfway.

    None where at least four were tried and the best has tried ones on both sides, or where there
    are as many as are tried at most. Rates are rounded to three digits.
    """
    missing = [rate for rate in first if rate not in tried]
    if missing:
        return missing[0]
    ordered = sorted(tried)
    if len(ordered) >= MOST_RATES:
        return None
    place = ordered.index(_best(tried))
    if place == 0:
        return _rounded(ordered[0] ** 2 / ordered[1])
    if place == len(ordered) - 1:
        return _rounded(ordered[-1] ** 2 / ordered[-2])
    if len(ordered) >= LEAST_RATES:
        return None
    beside = max(ordered[place - 1], ordered[place + 1], key=lambda rate: tried[rate])
    return _rounded(sqrt(ordered[place] * beside))


def best_rate(results: Mapping[str, Any], name: str) -> float | None:
    """Return the rate with the best average on the images held out; None where none is chosen."""
    tried = averages(results, name) if METHODS[name].rate else {}
    return _best(tried) if tried else None


def _best(tried: Mapping[float, float]) -> float:
    """Return the best rate, the smallest of equal ones."""
    return max(sorted(tried), key=lambda rate: tried[rate])


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")


def added(results: Mapping[str, Any], step: Step, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results with a run more."""
    kind = "runs" if step.seed is not None else "rates"
    of_method = {**known(results, kind, step.method), step.key: found}
    return {**results, kind: {**results[kind], step.method: of_method}}


def unfinished(results: Mapping[str, Any]) -> list[str]:
    """Return the methods of which a rate or a seed of the table is still to be run."""

    def left(name: str) -> bool:
        return next(steps([name], list(SEEDS), lambda: results), None) is not None

    return [name for name in METHODS if left(name)]
