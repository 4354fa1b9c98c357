"""Summaries of runs, and the page that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

TITLES = {
    "numpy": "bare NumPy loop",
    "pfl": "pfl-research, `SimulatedBackend`",
    "fleetledger-workers": "fleetledger, light agents, a worker for each further core",
    "fleetledger-light": "fleetledger, `inprocess` with light agents",
    "fleetledger-acting": "fleetledger, agents that act by themselves",
    "flwr": "Flower, simulation on Ray",
}


def summary(runs: Sequence[dict[str, Any]], watched: dict[str, float]) -> dict[str, Any]:
    """Return median, least and most of a round's seconds, and what a run that was watched took.

    The first round of a run is told apart: there everybody starts processes or reads libraries.
    So is the last, where there are more than two: there a stage ends.
    """
    later = [seconds for run in runs for seconds in _later(run["round_seconds"])]
    return {
        "runs": len(runs),
        "round_seconds": _spread(later),
        "last_round_seconds": _spread([run["round_seconds"][-1] for run in runs]),
        "first_round_seconds": _spread([run["round_seconds"][0] for run in runs]),
        "round_process_seconds": _spread(
            [seconds for run in runs for seconds in _later(run["round_process_seconds"])]
        ),
        "wall_seconds": _spread([run["wall_seconds"] for run in runs]),
        **watched,
        "load_before": _spread([run["load_before"] for run in runs]),
        "versions": runs[-1]["versions"],
    }


def _later(rounds: Sequence[float]) -> Sequence[float]:
    return rounds[1:-1] if len(rounds) > 2 else rounds[1:]


def tables(result: dict[str, Any]) -> str:
    """Return all cases as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    lines = ["# Overhead of a fleet's machinery", "", f"Machine: {machine}.", ""]
    for case in result["cases"].values():
        lines += [
            f"## {case['agents']:,} agents, {case['floats']:,} float32 each, "
            f"{case['rounds']} rounds",
            "",
            "| side | a later round, s | to pfl's | of the processor | to pfl's | first, s | "
            "last, s | whole program, s | of the processor | peak, MiB | load | n |",
            f"|{' --- |' * 12}",
            *(_row(side, case["sides"]) for side in TITLES if side in case["sides"]),
            "",
        ]
    return "\n".join(
        [
            *lines,
            "Median (least to most); ratios are of medians. The first round holds what each side",
            "does once: fleetledger sends nothing ahead, Flower starts its actors; where there are",
            "more than two, the last is told apart, too: there fleetledger ends a stage, exports",
            "the model and measures it. Workers are there before the first, as their seconds in",
            "the whole program say. Seconds of the processor in a round are of the process that",
            "leads, of light agents with the programs that pack and the workers (of Flower, whose",
            "clients are processes of their own, without those). Those of the whole program and",
            "the peak are of a run of its own and of all processes together, shared pages counted",
            "once. Load is the machine's before each run: 2 would be two busy cores.",
            "",
            *result.get("notes", ()),
            "",
        ]
    )


def _row(side: str, sides: dict[str, Any]) -> str:
    told = sides[side]["summary"]
    versions = ", ".join(f"{name} {value}" for name, value in told["versions"].items())
    cells = [
        f"{TITLES[side]} ({versions})",
        _range(told["round_seconds"]),
        _to_pfl("round_seconds", side, sides),
        _range(told["round_process_seconds"]),
        _to_pfl("round_process_seconds", side, sides),
        _range(told["first_round_seconds"]),
        _range(told["last_round_seconds"]),
        _range(told["wall_seconds"]),
        f"{told['processor_seconds']:.4g}",
        f"{told['peak_mib']:.4g}",
        _range(told["load_before"]),
        str(told["runs"]),
    ]
    return f"| {' | '.join(cells)} |"


def _to_pfl(name: str, side: str, sides: dict[str, Any]) -> str:
    if "pfl" not in sides:
        return ""
    medians = [sides[one]["summary"][name]["median"] for one in (side, "pfl")]
    return f"{medians[0] / medians[1]:.3g}x"


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['min']:.4g} to {spread['max']:.4g})"


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
