"""The results as Markdown: the eight combinations beside the paper's, the others, bytes, skew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.dcid_tables.cases import BESIDE, CASES, EIGHT, SKEWED, Case
from benchmarks.papers.footing.markdown import markdown_table

Run = Mapping[str, Any]
_TITLES = {
    "digits": "Handwritten digits: five first, then five sessions of one",
    "cifar": "A part of CIFAR-100: 20 classes first, then five sessions of four",
}
_KIBI = 1024


def tables(result: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    parts = [
        "# DCID, its ablations and what stands beside it\n",
        "Written by `python -m benchmarks.papers.dcid_tables.run`;"
        " [benchmarks/papers/dcid_tables](../papers/dcid_tables/README.md) says what was "
        "asked\nand "
        "what the "
        "figures say. Accuracies are in percent, mean ± sample deviation over seeds.\n",
        f"Machine: {told}.\n",
    ]
    for data, title in _TITLES.items():
        runs = {
            key.partition("/")[2]: run
            for key, run in result["runs"].items()
            if key.startswith(data)
        }
        if runs:
            parts += [
                f"## {title}\n",
                *_accuracies(runs),
                "### Bytes of a session\n",
                *_bytes(runs),
            ]
        skewed = {name: runs[name] for name in SKEWED if name in runs}
        if skewed:
            parts += ["### Skewed sites\n", *_skew(skewed)]
    return "\n".join(parts)


def _accuracies(runs: Mapping[str, Run]) -> Iterator[str]:
    head = (
        "case",
        "seeds",
        "first session",
        "average",
        "final",
        "forgetting, points",
        "average over FedAvg",
        "processor, s per seed",
        "printed average (final), subImageNet",
        "printed over FedAvg",
    )
    rows = [
        (
            CASES[name].title,
            str(len(run["seeds"])),
            *(_spread(run[field]) for field in ("base", "average", "final", "forgetting")),
            _gain(runs, name, f"{CASES[name].learner}-basic"),
            _seconds(run),
            _printed(CASES[name]),
            _printed_gain(CASES[name]),
        )
        for name, run in _in_order(runs, (*EIGHT, *BESIDE))
    ]
    return markdown_table(head, rows)


def _skew(runs: Mapping[str, Run]) -> Iterator[str]:
    head = ("case", "seeds", "average", "final", "forgetting, points", "average over FedAvg")
    rows = [
        (
            CASES[name].title,
            str(len(run["seeds"])),
            *(_spread(run[field]) for field in ("average", "final", "forgetting")),
            _gain(runs, name, f"{name.rpartition('-')[0]}-basic"),
        )
        for name, run in runs.items()
    ]
    return markdown_table(head, rows)


def _bytes(runs: Mapping[str, Run]) -> Iterator[str]:
    kinds = ("images up", "images down", "logits up", "logits down", "weights up", "weights down")
    head = ("case", *(f"{kind}, KiB" for kind in kinds), "all, KiB", "beside weights alone")
    rows = []
    for name, run in _in_order(runs, EIGHT):
        sizes = run["bytes_per_session"]
        whole = sum(sizes[kind] for kind in kinds)
        alone = runs.get(f"{CASES[name].learner}-basic")
        beside = f"{whole / sum(alone['bytes_per_session'].values()):.3f}" if alone else ""
        cells = (*(f"{sizes[kind] / _KIBI:,.0f}" for kind in kinds), f"{whole / _KIBI:,.0f}")
        rows.append((CASES[name].title, *cells, beside))
    return markdown_table(head, rows)


def _in_order(
    runs: Mapping[str, Run], names: Sequence[str] | Mapping[str, Case]
) -> Iterator[tuple[str, Run]]:
    return ((name, runs[name]) for name in names if name in runs)


def _gain(runs: Mapping[str, Run], name: str, beside: str) -> str:
    """Return how much better a case is than the one with FedAvg, over common seeds."""
    basic = runs.get(beside)
    if basic is None or name == beside:
        return ""
    own, other = runs[name]["accuracy"], basic["accuracy"]
    common = [str(seed) for seed in runs[name]["seeds"] if str(seed) in _keys(other)]
    gains = [_mean(_keys(own)[seed]) - _mean(_keys(other)[seed]) for seed in common]
    shown = ", ".join(f"{gain:+.2f}" for gain in gains)
    return f"{sum(gains) / len(gains):+.2f} ({shown})" if len(gains) > 1 else shown


def _keys(by_seed: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(seed): values for seed, values in by_seed.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _printed(case: Case) -> str:
    printed = case.printed
    if printed is None:
        return ""
    return f"{printed.average:.2f}" + (f" ({printed.final:.2f})" if printed.final else "")


def _printed_gain(case: Case) -> str:
    basic = EIGHT.get(f"{case.learner}-basic")
    if case.printed is None or basic is None or basic.printed is None or case is basic:
        return ""
    return f"{case.printed.average - basic.printed.average:+.2f}"


def _spread(value: Mapping[str, float | None]) -> str:
    deviation = "" if value["deviation"] is None else f" ± {value['deviation']:.2f}"
    return f"{value['mean']:.2f}{deviation}"


def _seconds(run: Run) -> str:
    spent = run["processor_seconds"]
    return "" if spent is None else f"{spent / len(run['seeds']):.0f}"
