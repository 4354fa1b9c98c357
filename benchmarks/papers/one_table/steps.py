"""What is to be run, and which rate is next; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.papers.footing.cells import Step, known
from benchmarks.papers.footing.rates import best_of, next_rate
from benchmarks.papers.one_table.cases import METHODS, SEEDS


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


def averages(results: Mapping[str, Any], name: str) -> dict[float, float]:
    """Return the average on held-out images by rate, of a method or of the one it is tuned as."""
    tried = known(results, "rates", METHODS[name].tuned_as or name)
    return {float(rate): float(run["average"]) for rate, run in tried.items()}


def best_rate(results: Mapping[str, Any], name: str) -> float | None:
    """Return the rate with the best average on the images held out; None where none is chosen."""
    tried = averages(results, name) if METHODS[name].rate else {}
    return best_of(tried)


def unfinished(results: Mapping[str, Any]) -> list[str]:
    """Return the methods of which a rate or a seed of the table is still to be run."""

    def left(name: str) -> bool:
        return next(steps([name], list(SEEDS), lambda: results), None) is not None

    return [name for name in METHODS if left(name)]
