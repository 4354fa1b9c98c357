"""Summaries of runs, and the page that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

TITLES = {
    "numpy": "bare NumPy loop",
    "pfl": "pfl-research, `SimulatedBackend`",
    "fleetledger-light": "fleetledger, `inprocess` with light agents",
    "fleetledger": "fleetledger, `inprocess` with whole agents",
    "fleetledger-awake": "fleetledger, all whole agents kept in memory",
    "flwr": "Flower, simulation on Ray",
}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return median, least and most of a round's seconds and of the peak.

    The first round of a run is told apart: there everybody starts processes or reads libraries.
    """
    later = [seconds for run in runs for seconds in run["round_seconds"][1:]]
    return {
        "runs": len(runs),
        "round_seconds": _spread(later),
        "first_round_seconds": _spread([run["round_seconds"][0] for run in runs]),
        "round_process_seconds": _spread(
            [seconds for run in runs for seconds in run["round_process_seconds"][1:]]
        ),
        "processor_seconds": _spread([run["processor_seconds"] for run in runs]),
        "wall_seconds": _spread([run["wall_seconds"] for run in runs]),
        "peak_mib": _spread([run["peak_mib"] for run in runs]),
        "load_before": _spread([run["load_before"] for run in runs]),
        "versions": runs[-1]["versions"],
    }


def tables(result: dict[str, Any]) -> str:
    """Return all cases as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    lines = ["# Overhead of a fleet's machinery", "", f"Machine: {machine}.", ""]
    for case in result["cases"].values():
        lines += [
            f"## {case['agents']:,} agents, {case['floats']:,} float32 each, "
            f"{case['rounds']} rounds",
            "",
            "| side | a later round, s | of the processor | first round, s | whole program, s | "
            "of the processor | peak, MiB | round's processor, to pfl's | load | n |",
            f"|{' --- |' * 10}",
            *(_row(side, case["sides"]) for side in TITLES if side in case["sides"]),
            "",
        ]
    return "\n".join(
        [
            *lines,
            "Median (least to most). The first round holds what each side does once: fleetledger",
            "sends nothing ahead, Flower starts its actors. Peak is that of all processes of a",
            "side together, shared pages counted once. Load is the machine's before each run: 2",
            "would be two busy cores. Seconds of the processor are those of the work itself,",
            "whatever else ran: of a later round in the process that leads, of light agents with",
            "the programs that pack (of Flower, whose clients are processes of their own, without",
            "those, so its ratio is too small), and of all processes together. Only these compare",
            "sides that met different loads.",
            "",
            *result.get("notes", ()),
            "",
        ]
    )


def _row(side: str, sides: dict[str, Any]) -> str:
    told = sides[side]["summary"]
    versions = ", ".join(f"{name} {value}" for name, value in told["versions"].items())
    ratio = ""
    if "pfl" in sides:
        other = sides["pfl"]["summary"]["round_process_seconds"]["median"]
        ratio = f"{told['round_process_seconds']['median'] / other:.3g}x"
    cells = [
        f"{TITLES[side]} ({versions})",
        *(
            _range(told[name])
            for name in (
                "round_seconds",
                "round_process_seconds",
                "first_round_seconds",
                "wall_seconds",
                "processor_seconds",
                "peak_mib",
            )
        ),
        ratio,
        _range(told["load_before"]),
        str(told["runs"]),
    ]
    return f"| {' | '.join(cells)} |"


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['min']:.4g} to {spread['max']:.4g})"


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
