"""Numbers over seeds and tables as Markdown; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetledger.simulator.metrics.over_seeds import Summary, paired_difference, summary

Runs = Mapping[str, Mapping[str, Any]]
"""Runs of one method by seed, as `seed 1`."""


def ranked(runs: Mapping[str, Runs]) -> list[tuple[str, Runs]]:
    """Return the methods that have runs, the best average first."""
    found = [(name, by_seed) for name, by_seed in runs.items() if by_seed]
    return sorted(found, key=lambda item: -over_seeds(item[1], "average").mean)


def over_seeds(runs: Runs, field: str) -> Summary:
    """Return a number over seeds."""
    return summary([float(run[field]) for run in runs.values()])


def spread(runs: Runs, field: str, digits: int = 2) -> str:
    """Return a number over seeds: its mean, and half of its interval where there are several."""
    return mean([float(run[field]) for run in runs.values()], digits)


def mean(values: Sequence[float], digits: int = 2) -> str:
    """Return the mean and, of several, half of its interval."""
    found = summary(values)
    half = found.half_width
    return f"{found.mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def difference(of: Runs, to: Runs, field: str, digits: int = 1) -> str:
    """Return how far `of` is above `to` by the seeds of both, with its interval; empty without."""
    found = paired_difference(_by_seed(to, field), _by_seed(of, field))
    if found is None:
        return ""
    told = f"{found.mean:+.{digits}f}"
    if found.low is None or found.high is None:
        return told
    return f"{told} ({found.low:+.{digits}f} to {found.high:+.{digits}f})"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one."""
    for row in (head, ["---"] * len(head), *rows):
        yield line(row)
    yield ""


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def _by_seed(runs: Runs, field: str) -> dict[int, float]:
    return {int(key.rpartition(" ")[2]): float(run[field]) for key, run in runs.items()}
