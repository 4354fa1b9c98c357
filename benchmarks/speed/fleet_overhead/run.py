"""Measure what a fleet's machinery costs: agents that answer without training, round after round.

    small   1,000 agents, 10,000 float32 each, five rounds
    large   1,000 agents, 1,000,000 float32 each, two rounds

Sides: fleetledger's engine `inprocess` with its full ledger (agents that are told what to do, with
and without a worker, and agents that act by themselves), pfl-research's `SimulatedBackend`,
Flower's simulation, and a bare loop in NumPy. Each run is a process of its own; the sides take
turns.

    python -m benchmarks.speed.fleet_overhead.run --environments FOLDER
    python -m benchmarks.speed.fleet_overhead.run --cases small --sides fleetledger-light --runs 5

FOLDER holds, or will hold, the peers' virtual environments `pfl` and `flwr`. A side that is
measured again replaces what was stored of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from benchmarks.speed.fleet_overhead.environments import python_of
from benchmarks.speed.fleet_overhead.measuring import ROOT, measure, watch
from benchmarks.speed.fleet_overhead.tables import summary, tables

RESULTS = ROOT / "benchmarks" / "results" / "fleet_overhead.json"
HERE = Path(__file__).resolve().parent
CASES = {"small": ("1000", "10000", "5"), "large": ("1000", "1000000", "2")}
"""Agents, floats, rounds."""
OURS = [sys.executable, "-m", "benchmarks.speed.fleet_overhead.sides.fleetledger_side"]
SIDES = (
    "numpy",
    "pfl",
    "fleetledger-workers",
    "fleetledger-light",
    "fleetledger-acting",
    "flwr",
)
TIMEOUT_SECONDS = 3600.0


def command(side: str, case: str, environments: Path) -> list[str] | None:
    """Return how a side is started; None where it is not there."""
    numbers = CASES[case]
    if side == "numpy":
        return [sys.executable, str(HERE / "sides" / "bare_numpy.py"), *numbers]
    if side == "fleetledger-light":
        return [*OURS, *numbers, "told"]
    if side == "fleetledger-workers":
        return [*OURS, *numbers, "told", str(len(os.sched_getaffinity(0)) - 1)]
    if side == "fleetledger-acting":
        return [*OURS, *numbers, "acting"]
    python = python_of(side, environments)
    script = {"pfl": "pfl_research.py", "flwr": "flower.py"}[side]
    return None if python is None else [str(python), str(HERE / "sides" / script), *numbers]


def measure_all(case: str, sides: Sequence[str], runs: int, environments: Path) -> dict[str, Any]:
    """Return the runs of each side, and what it takes.

    The sides take turns, so that a busy minute meets all.
    """
    found = {side: command(side, case, environments) for side in sides}
    commands = {side: words for side, words in found.items() if words is not None}
    measured: dict[str, dict[str, Any]] = {side: {"runs": []} for side in commands}
    for number in range(runs):
        for side, words in commands.items():
            one = measure(words, _folder(side), TIMEOUT_SECONDS)
            _say(f"{case}, {side}, run {number + 1}", one)
            measured[side]["runs"].append(one)
    for side, words in commands.items():
        measured[side]["watched"] = watch(words, _folder(side), TIMEOUT_SECONDS)
        _say(f"{case}, {side}, watched", measured[side]["watched"])
    return measured


def _folder(side: str) -> Path:
    return ROOT if side.startswith("fleetledger") else HERE


def _say(what: str, found: dict[str, Any]) -> None:
    sys.stdout.write(f"{what}: {json.dumps(found)}\n")
    sys.stdout.flush()


def store(path: Path, case: str, measured: dict[str, Any]) -> None:
    """Put what was measured into the results, beside what was before."""
    result = json.loads(path.read_text("utf-8")) if path.exists() else {"cases": {}}
    agents, floats, rounds = map(int, CASES[case])
    kept = result["cases"].get(case, {}).get("sides", {})
    new = {side: {"summary": summary(**found), **found} for side, found in measured.items()}
    shape = {"agents": agents, "floats": floats, "rounds": rounds}
    result = {
        "claim": "fleet_overhead",
        "machine": describe_machine("numpy"),
        "cases": {**result["cases"], case: {**shape, "sides": {**kept, **new}}},
        "notes": result.get("notes", []),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(tables(result), encoding="utf-8")


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "peers")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--runs", type=int, default=3, help="of each side")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for case in arguments.cases:
        measured = measure_all(case, arguments.sides, arguments.runs, arguments.environments)
        store(arguments.out, case, measured)


if __name__ == "__main__":
    main()
