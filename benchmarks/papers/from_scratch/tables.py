"""The results as Markdown: the table, what is still to be run, and how rates were chosen; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.footing.markdown import (
    Runs,
    difference,
    markdown_table,
    over_seeds,
    ranked,
    spread,
)
from benchmarks.papers.footing.rates import at_edge, best_of
from benchmarks.papers.from_scratch.cases import (
    BATCH,
    EPOCHS,
    EXEMPLARS,
    RIVAL,
    ROUNDS,
    ROWS,
    SEEDS,
    TUNING_TASKS,
    Row,
)

_HEAD = (
    "method",
    "seeds",
    "rate",
    "average, %",
    "last, %",
    "old classes, %",
    "forgetting, points",
    "average beside",
    "last beside",
    "MiB up",
    "MiB down",
    "device seconds",
)
_TRIED = ("average", "last", "forgetting")
_LGA = "lga-{}"
_RIVALS = (
    *("glfc-{}", "without-sdl-{}", "lga-fedavg-{}"),
    *(RIVAL, "fedavg-counts", "rounds-best", "icarl", "lga-paper"),
)
"""What LGA is compared with, of the same mode where there is one."""


def tables(results: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    runs = ended(results["runs"])
    on_it = [(name, found) for name, found in ranked(runs) if not ROWS[name].apart]
    apart = [(name, found) for name, found in ranked(runs) if ROWS[name].apart]
    parts = [
        "# All methods from scratch\n",
        "Written by `python -m benchmarks.papers.from_scratch.run`; [benchmarks/papers/from_scratch"
        "](../papers/from_scratch/README.md) says what is the same for all.\n"
        f"Mean over the seeds {', '.join(map(str, SEEDS))} ± half of the 95 % interval (Student's "
        "t); a row with fewer seeds says so. Beside: minus FedAvg with exemplars, seed by seed,\n"
        "in points with the interval. MiB and seconds of one device: bytes in one task, computing "
        f"over all. {ROUNDS} rounds a task of {EPOCHS} epochs in batches of {BATCH}, {EXEMPLARS} "
        "exemplars of a class where a method keeps any.\n",
        f"Machine: {told}.\n",
        *markdown_table(_HEAD, [_row(ROWS[name], found, runs) for name, found in on_it]),
        *_apart(apart, runs),
        *_of_lga(runs),
        *_missing(runs),
        "## How rates were chosen\n",
        f"Average over the first {TUNING_TASKS} tasks of a seed of its own, in percent of 50 "
        "training images of each class that were held out. A grid grows while its best rate is at "
        "an edge.\n",
        *markdown_table(("method", "rates and averages"), list(_rates(results["rates"]))),
        *_passes(results.get("passes", {})),
        *_ingredients(results["rates"]),
    ]
    return "\n".join(parts)


def ended(runs: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return the runs of each row that did not fail."""
    return {
        name: {key: run for key, run in cells.items() if "average" in run}
        for name, cells in runs.items()
    }


def _row(row: Row, found: Runs, runs: Mapping[str, Runs]) -> tuple[str, ...]:
    other = runs.get(row.beside, {}) if row.beside else {}
    rates = sorted({float(run["rate"]) for run in found.values()})
    fields = ("average", "last", "old_classes", "forgetting")
    return (
        row.title,
        str(len(found)),
        ", ".join(f"{rate:g}" for rate in rates),
        *(spread(found, field, 1) for field in fields),
        difference(found, other, "average"),
        difference(found, other, "last"),
        f"{over_seeds(found, 'mib_up').mean:.2f}",
        f"{over_seeds(found, 'mib_down').mean:.2f}",
        f"{over_seeds(found, 'device_seconds').mean:.1f}",
    )


def _apart(found: list[tuple[str, Runs]], runs: Mapping[str, Runs]) -> Iterator[str]:
    if not found:
        return
    why = "; ".join(dict.fromkeys(ROWS[name].apart for name, _ in found))
    yield "## On a base of their own\n"
    yield f"No figures of the footing above: {why}. Beside: minus FedAvg with the same learner.\n"
    yield from markdown_table(_HEAD, [_row(ROWS[name], item, runs) for name, item in found])


def _of_lga(runs: Mapping[str, Runs]) -> Iterator[str]:
    rows = []
    for mode in ("code", "paper"):
        lga = runs.get(_LGA.format(mode), {})
        for name in (rival.format(mode) for rival in _RIVALS):
            other = runs.get(name, {})
            shared = sorted(lga.keys() & other.keys())
            if shared and other is not lga:
                seeds = ", ".join(key.rpartition(" ")[2] for key in shared)
                told = (
                    difference(lga, other, field) for field in ("average", "last", "forgetting")
                )
                rows.append((f"`{mode}`", ROWS[name].title, seeds, *told))
    if rows:
        yield "## LGA minus its rivals\n"
        yield "Points, seed by seed, with the 95 % interval where there are several seeds.\n"
        yield from markdown_table(("mode", "rival", "seeds", "average", "last", "forgetting"), rows)


def _missing(runs: Mapping[str, Runs]) -> Iterator[str]:
    lacking = [
        f"{name} ({', '.join(str(seed) for seed in SEEDS if f'seed {seed}' not in found)})"
        for name, row in ROWS.items()
        if not row.ingredient
        if len(found := runs.get(name, {})) < len(SEEDS)
    ]
    if lacking:
        yield "## Not there\n"
        yield f"Seeds in brackets were not run yet, or failed: {'; '.join(lacking)}.\n"


def _rates(rates: Mapping[str, Runs]) -> Iterator[tuple[str, str]]:
    for name, cells in rates.items():
        if ROWS[name].ingredient:
            continue
        tried = {float(rate): run.get("average") for rate, run in cells.items()}
        best = best_of(tried)
        told = [
            f"**{_score(rate, score)}**" if rate == best else _score(rate, score)
            for rate, score in sorted(tried.items())
        ]
        edge = " (the search goes on)" if at_edge(tried) else ""
        yield ROWS[name].title, ", ".join(told) + edge


def _score(rate: float, score: float | None) -> str:
    return f"{rate:g}: " + ("failed" if score is None else f"{score:.1f}")


def _passes(passes: Mapping[str, Runs]) -> Iterator[str]:
    if not passes:
        return
    yield "## How passes were chosen\n"
    rows = [
        (ROWS[name].title, f"{length}: {run['average']:.1f}")
        for name, cells in passes.items()
        for length, run in sorted(cells.items(), key=lambda item: int(item[0]))
    ]
    yield from markdown_table(("method", "passes of a task and average"), rows)


def _ingredients(rates: Mapping[str, Runs]) -> Iterator[str]:
    rows = [
        (ROWS[name].title, rate, *(f"{run[field]:.1f}" for field in _TRIED))
        for name, cells in rates.items()
        if ROWS[name].ingredient
        for rate, run in cells.items()
    ]
    if rows:
        yield "## What `best` was put together from\n"
        yield "FedAvg with exemplars, changed as the row says, on held-out images as rates are.\n"
        yield from markdown_table(
            ("change", "rate", "average, %", "last, %", "forgetting, points"), rows
        )
