"""Summaries of runs, and the page that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.speed.fleet_overhead.commands import CASES, OURS, RIVALS, SIDES
from benchmarks.speed.fleet_overhead.ratios import accuracy, apart, later, ratio

TESTED = 4000
"""Samples that a trained network is asked about: `trained.task.TESTED`."""
_HEAD = (
    "side",
    "a later round, s",
    "of the processor",
    "first, s",
    "last, s",
    "whole program, s",
    "of the processor",
    "peak, MiB",
    "accuracy, %",
    "load",
    "n",
)


def summary(
    runs: Sequence[dict[str, Any]], watched: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return median, least and most of a round's seconds, and what a run that was watched took.

    The first round of a run is told apart, and so is the last, where there are more than two.
    """
    clocks = ("round_seconds", "round_process_seconds")
    return {
        "runs": len(runs),
        **{
            clock: _spread([seconds for run in runs for seconds in later(run[clock])])
            for clock in clocks
        },
        "last_round_seconds": _spread([run["round_seconds"][-1] for run in runs]),
        "first_round_seconds": _spread([run["round_seconds"][0] for run in runs]),
        "wall_seconds": _spread([run["wall_seconds"] for run in runs]),
        "peak_mib": max(run["own_peak_mib"] for run in runs),
        **(watched or {}),
        "load_before": _spread([run["load_before"] for run in runs]),
        "versions": runs[-1]["versions"],
    }


def tables(result: Mapping[str, Any]) -> str:
    """Return all cases as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    lines = ["# Beside other frameworks", "", f"Machine: {machine}.", ""]
    for name, case in result["cases"].items():
        sides = {side: case["sides"][side] for side in SIDES if side in case["sides"]}
        lines += [
            f"## {CASES[name].title}",
            "",
            *_rows(_HEAD, [_cells(side, found) for side, found in sides.items()]),
            "",
            *_compared(sides),
        ]
    return "\n".join([*lines, *_READING, "", *result.get("notes", ()), ""])


_READING = (
    "Median (least to most). The first round holds what each side does once; where there are more",
    "than two, the last is told apart, too: there fleetledger ends a stage, exports the model and",
    "measures it. Seconds of the processor in a round are of all programs of a side that run when",
    "it ends. Those of the whole program and the peak are of a run of its own and of all processes",
    "together, shared pages counted once; without such a run the peak is of the leading process.",
    "Load is the machine's before each run: 2 would be two busy cores.",
)


def _compared(sides: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return our time as a share of each rival's, and a word on what both learned."""
    ours, rivals = ([side for side in names if side in sides] for names in (OURS, RIVALS))
    if not (ours and rivals):
        return []
    head = ("a later round of ours", *(f"to {SIDES[rival].title}" for rival in rivals))
    rows = [
        (f"{SIDES[own].title}, {words}", *(str(ratio(sides[own], sides[r], clock)) for r in rivals))
        for own in ours
        for clock, words in (("round_seconds", "clock"), ("round_process_seconds", "processor"))
    ]
    fair = [_fairness(own, rival, sides) for own in ours for rival in rivals]
    return [
        "Our seconds as a share of theirs, of runs in the same turn: below 1 is ahead.",
        "",
        *_rows(head, rows),
        "",
        *(word for word in fair if word),
        "",
    ]


def _fairness(own: str, rival: str, sides: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a warning where accuracies are further apart than chance explains."""
    mine, theirs = accuracy(sides[own]), accuracy(sides[rival])
    if mine is None or theirs is None or not apart(mine.median, theirs.median, TESTED):
        return ""
    ends = " and ".join(
        f"{SIDES[side].title} at {100 * found.median:.1f} %"
        for side, found in ((own, mine), (rival, theirs))
    )
    return f"**Unfair**: accuracies are further apart than chance explains, {ends}."


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _cells(side: str, found: Mapping[str, Any]) -> list[str]:
    told = found["summary"]
    versions = ", ".join(f"{name} {value}" for name, value in told["versions"].items())
    learned = accuracy(found)
    return [
        f"{SIDES[side].title} ({versions})",
        *(
            _range(told[name])
            for name in (
                "round_seconds",
                "round_process_seconds",
                "first_round_seconds",
                "last_round_seconds",
                "wall_seconds",
            )
        ),
        *(
            f"{told[name]:.4g}" if name in told else "-"
            for name in ("processor_seconds", "peak_mib")
        ),
        "-" if learned is None else " to ".join(f"{100 * one:.1f}" for one in learned[1:]),
        _range(told["load_before"]),
        str(told["runs"]),
    ]


def _range(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['min']:.4g} to {spread['max']:.4g})"


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
