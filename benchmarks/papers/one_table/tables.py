"""The results as Markdown: the table, and how each rate was chosen; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.one_table.cases import (
    BATCH,
    BUDGET,
    EPOCHS,
    MEMORY,
    METHODS,
    ROUNDS,
    SEEDS,
    TUNING_STAGES,
)
from fleetledger.simulator.metrics.over_seeds import summary

_MEBI = 2**20
_HEAD = (
    "method",
    "seeds",
    "average, %",
    "last, %",
    "forgetting, points",
    "MiB up",
    "MiB down",
    "device seconds",
)
Runs = Mapping[str, Mapping[str, Any]]


def tables(results: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    parts = [
        "# All methods on one footing\n",
        "Written by `python -m benchmarks.papers.one_table.run`; [benchmarks/papers/one_table]"
        "(../papers/one_table/README.md) says what is the same for all.\nMean over the seeds "
        f"{', '.join(map(str, SEEDS))} ± half of the 95 % interval (Student's t); a row with "
        "fewer seeds says so. MiB and\nseconds of one device: bytes in one stage, computing over "
        f"all ten. A device may send {BUDGET / _MEBI:.2f} MiB in a stage; rows\nthat send more "
        f"are marked *. Methods of rounds: {ROUNDS} rounds of {EPOCHS} epochs in batches of "
        f"{BATCH} unless the row says otherwise,\n{MEMORY} exemplars on a device where there are "
        "any.\n",
        f"Machine: {told}.\n",
        *_table(_HEAD, [_row(name, runs) for name, runs in ranked(results["runs"])]),
        "## How rates were chosen\n",
        f"Average over the first {TUNING_STAGES} stages of a seed of its own, in percent of 50 "
        "training images of each class that were held out.\n",
        *_table(("method", "rates and averages"), list(_rates(results["rates"]))),
    ]
    return "\n".join(parts)


def ranked(runs: Mapping[str, Runs]) -> list[tuple[str, Runs]]:
    """Return the methods that have runs, the best average first."""
    found = [(name, by_seed) for name, by_seed in runs.items() if by_seed]
    return sorted(found, key=lambda item: -_values(item[1], "average").mean)


def spread(runs: Runs, field: str, digits: int = 2) -> str:
    """Return a number over seeds: its mean, and half of its interval where there are several."""
    found = _values(runs, field)
    half = found.half_width
    return f"{found.mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def _values(runs: Runs, field: str) -> Any:  # noqa: ANN401 - a summary
    return summary([float(run[field]) for run in runs.values()])


def _row(name: str, runs: Runs) -> tuple[str, ...]:
    sent = _values(runs, "mib_up").mean
    mark = " *" if sent * _MEBI > BUDGET else ""
    return (
        METHODS[name].title,
        str(len(runs)),
        *(spread(runs, field) for field in ("average", "last", "forgetting")),
        f"{sent:.2f}{mark}",
        f"{_values(runs, 'mib_down').mean:.2f}",
        f"{_values(runs, 'device_seconds').mean:.1f}",
    )


def _rates(rates: Mapping[str, Runs]) -> Iterator[tuple[str, str]]:
    for name, tried in rates.items():
        best = max(tried, key=lambda rate: float(tried[rate]["average"]))
        told = [
            f"**{rate}: {run['average']:.1f}**" if rate == best else f"{rate}: {run['average']:.1f}"
            for rate, run in sorted(tried.items(), key=lambda item: float(item[0]))
        ]
        yield METHODS[name].title, ", ".join(told)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""
