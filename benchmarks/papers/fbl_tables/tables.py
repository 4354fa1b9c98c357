"""The results as Markdown: mIoU after every task, old and new classes, seconds, the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.fbl_tables.cases import METHODS, PUBLISHED, Case
from benchmarks.papers.footing.markdown import markdown_table
from fleetledger.simulator.scenario.sections import PublishedCurve

Run = Mapping[str, Any]


def table(case: Case, published: Sequence[PublishedCurve], result: Mapping[str, Any]) -> str:
    """Return the table of a case, of the methods that have been measured so far."""
    runs = {name: result["runs"][name] for name in METHODS if name in result["runs"]}
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    changed = ", ".join(f"`{name} = {value}`" for name, value in result["fields"].items())
    parts = [
        f"# FBL: {case.title}\n",
        f"Scenario `{case.scenario}`, written by `python -m benchmarks.papers.fbl_tables.run`;"
        " [benchmarks/papers/fbl_tables](../papers/fbl_tables/README.md)\nsays what was asked "
        "and what "
        "the "
        "figures say. mIoU in percent over background and all classes seen, one seed.\n",
        *([f"Set in the scenario for all methods: {changed}.\n"] if changed else []),
        f"Machine: {told}. Processor time of all threads, evaluation and report included.\n",
        *_rows(case, published, runs),
        "### By class, after the last task\n",
        *_classes(runs),
    ]
    return "\n".join(parts)


def _rows(
    case: Case, published: Sequence[PublishedCurve], runs: Mapping[str, Run]
) -> Iterator[str]:
    printed = {label: curve for label, curve in _printed(case, published).items() if curve}
    tasks = max(len(run["miou"]) for run in runs.values())
    head = [
        "method",
        *(f"task {number}" for number in range(1, tasks + 1)),
        "average",
        "old",
        "new",
        "over finetuning",
        "processor, s",
        *(["printed, last"] if printed else []),
    ]
    rows = [
        [
            METHODS[name],
            *_told([*run["miou"], *[None] * (tasks - len(run["miou"]))]),
            f"{sum(run['miou']) / len(run['miou']):.1f}",
            *_told([run["old"], run["new"]]),
            _gain(runs, name),
            f"{run['processor_seconds']:.0f}",
            *([printed.get(name, "")] if printed else []),
        ]
        for name, run in runs.items()
    ]
    rest = [
        [title, *[""] * (len(head) - 2), printed[name]]
        for name, title in {**METHODS, "rcil": "RCIL"}.items()
        if name in printed and name not in runs
    ]
    return markdown_table(head, [*rows, *rest])


def _printed(case: Case, published: Sequence[PublishedCurve]) -> dict[str, str]:
    """Return what the paper prints by method: after the last task, and after all where it does."""
    by_label = {curve.label: curve for curve in published}
    found = {name: by_label[label] for name, label in PUBLISHED.items() if label in by_label}
    told = {
        name: f"{curve.final:.1f}" + _curve(curve.accuracy)
        for name, curve in found.items()
        if curve.final is not None
    }
    return told | {name: f"{value:.1f}" for name, value in case.ablations.items()}


def _curve(accuracies: Sequence[float]) -> str:
    return f" ({', '.join(f'{value:.1f}' for value in accuracies)})" if accuracies else ""


def _gain(runs: Mapping[str, Run], name: str) -> str:
    beside = runs.get("finetuning")
    if beside is None or name == "finetuning":
        return ""
    return f"{runs[name]['miou'][-1] - beside['miou'][-1]:+.1f}"


def _classes(runs: Mapping[str, Run]) -> Iterator[str]:
    names = list(next(iter(runs.values()))["classes"])
    rows = [
        [METHODS[method], *_told([run["classes"].get(name) for name in names])]
        for method, run in runs.items()
    ]
    return markdown_table(["method", *names], rows)


def _told(values: Sequence[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.1f}" for value in values]
