"""The results as Markdown: the table of the methods, the bytes, and the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.fedhaf_tables.cases import CASES, Case
from benchmarks.papers.footing.markdown import markdown_table

Run = Mapping[str, Any]
_NOTHING = ""
_COMPARED_TASKS = 2
"""Both forms of an answer were measured on so many tasks."""
_ACCURACIES = (
    "average",
    "average_of_nine",
    "last",
    "forgetting",
    "right_task",
    "right_class_within_task",
    "new_tasks",
)


def tables(result: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    runs: Sequence[Run] = list(result["runs"].values())
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    parts = [
        "# FedHAF on CIFAR-100\n",
        "Written by `python -m benchmarks.papers.fedhaf_tables.run`;"
        " [benchmarks/papers/fedhaf_tables](../papers/fedhaf_tables/README.md) says what\nwas "
        "asked, "
        "under which"
        " settings, and what the figures say.\n",
        f"Machine: {told}.\n",
    ]
    for beta in sorted({run["beta"] for run in runs if not run.get("search")}, reverse=True):
        chosen = [run for run in runs if run["beta"] == beta and not run.get("search")]
        by_study: dict[str, list[Run]] = {}
        for run in chosen:
            by_study.setdefault(CASES[run["case"]].study, []).append(run)
        for study, found in sorted(by_study.items()):
            beside = f", study `{study}`" if study else ""
            parts += [f"## Dirichlet {beta:g}{beside}\n", *_methods(found)]
    parts += ["## Bytes of a round\n", *_bytes(runs, result.get("networks", {}))]
    searched = [run for run in runs if run.get("search") and len(run["accuracy"]) > _COMPARED_TASKS]
    if searched:
        parts += ["## The search\n", *_searched(searched)]
    return "\n".join(parts)


def _methods(runs: Sequence[Run]) -> Iterator[str]:
    head = (
        "method",
        "seed",
        "average, %",
        "tasks 1-9, %",
        "tasks 2-10, %",
        "last, %",
        "forgetting",
        "right task, %",
        "right class within it, %",
        "new tasks, %",
        "KiB sent per round and device",
        "exemplars in the fleet",
        "processor, s",
        "printed A, %",
        "printed F",
    )
    order = list(CASES)
    found = sorted(runs, key=lambda run: (order.index(run["case"]), run["seed"]))
    return markdown_table(head, [_row(run, CASES[run["case"]]) for run in found])


def _row(run: Run, case: Case) -> tuple[str, ...]:
    printed = case.printed
    return (
        case.title,
        str(run["seed"]),
        *(f"{run[name]:.2f}" for name in _ACCURACIES[:2]),
        f"{_from_the_second(run):.2f}",
        *(f"{run[name]:.2f}" for name in _ACCURACIES[2:]),
        _kibibytes(run),
        f"{run['stored_samples']:,}" if run["stored_samples"] else _NOTHING,
        f"{run['processor_seconds']:.0f}" if run["processor_seconds"] else _NOTHING,
        f"{printed.average:.2f}" if printed else _NOTHING,
        f"{printed.forgetting:.2f}" if printed and printed.forgetting else _NOTHING,
    )


def _from_the_second(run: Run) -> float:
    """Return the mean over the tasks from the second on, of which the paper's nine may be."""
    later = run["accuracy"][1:]
    return float(sum(later) / len(later))


def _kibibytes(run: Run) -> str:
    if "bytes_up_per_round_and_device" in run:
        return f"{run['bytes_up_per_round_and_device'] / 1024:,.0f}"
    if "bytes_up_per_stage_and_device" in run:
        return f"{run['bytes_up_per_stage_and_device'] / 1024:,.0f} per stage"
    return _NOTHING


def _bytes(runs: Sequence[Run], networks: Mapping[str, int]) -> Iterator[str]:
    rows = [
        (
            CASES[run["case"]].title,
            f"{run['parameters']:,}",
            f"{run['bytes_up_per_round_and_device']:,}",
            f"{run['bytes_up_per_round_and_device'] / run['parameters']:.2f}",
        )
        for run in runs
        if run["case"] in ("full", "int16") and len(run["accuracy"]) == _COMPARED_TASKS
    ]
    whole = [
        (name, f"{numbers:,}", f"{4 * numbers:,} before compression", "4.00")
        for name, numbers in networks.items()
    ]
    return markdown_table(
        ("what a device sends", "numbers", "bytes", "bytes a number"), [*rows, *whole]
    )


def _searched(runs: Sequence[Run]) -> Iterator[str]:
    head = ("case and settings", "seed", "tasks", "average, %", "last, %", "forgetting")
    rows = [
        (
            run["search"],
            str(run["seed"]),
            str(len(run["accuracy"])),
            *(f"{run[name]:.2f}" for name in ("average", "last", "forgetting")),
        )
        for run in sorted(runs, key=lambda run: (run["seed"], -run["average"]))
    ]
    return markdown_table(head, rows)
