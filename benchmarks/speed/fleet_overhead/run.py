"""Measure fleetledger beside pfl-research, Flower, fluke and BlazeFL, on the same tasks.

    small     1,000 agents answer with 10,000 float32 each, and nobody trains
    large     the same with 1,000,000
    trained   100 agents train a small network on data of their own

Each run is a process of its own, and the sides take turns. Ratios are of runs of one turn.

    make bench-peers                         # all of it, an hour or more
    make bench-peers PEERS_ARGS=--quick      # some 7 minutes (calculated) once they are
    python -m benchmarks.speed.fleet_overhead.run --environments FOLDER
    python -m benchmarks.speed.fleet_overhead.run --cases small --sides fleetledger-light --runs 5

FOLDER holds, or will hold, a virtual environment of each peer; one that cannot be installed is
skipped with a message. A side that is measured again replaces what was stored of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from benchmarks.speed.fleet_overhead.commands import (
    CASES,
    OURS,
    RIVALS,
    ROOT,
    SIDES,
    python_words,
    words_of,
)
from benchmarks.speed.fleet_overhead.environments import python_of
from benchmarks.speed.fleet_overhead.measuring import measure, watch
from benchmarks.speed.fleet_overhead.tables import summary, tables

RESULTS = ROOT / "benchmarks" / "results" / "fleet_overhead.json"
HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS, QUICK_SECONDS = 3600.0, 180.0
"""That one run may take."""

Commands = Mapping[str, list[str]]


def commands_of(case: str, sides: Sequence[str], arguments: argparse.Namespace) -> Commands:
    """Return how each side is started that is there and does the case."""
    found = {}
    pythons = partial(python_of, folder=arguments.environments.resolve(), torch=arguments.torch)
    for side in sides:
        words = words_of(side, CASES[case], quick=arguments.quick)
        command = [] if words is None else python_words(side, words, pythons)
        if command:
            found[side] = command
    return found


def measure_all(case: str, commands: Commands, runs: int, *, quick: bool) -> dict[str, Any]:
    """Return the runs of each side, and what it takes.

    The sides take turns, so that a busy minute meets all. A rival that fails is left out with a
    message. Under `quick` memory is looked at only where a network is trained.
    """
    limit = QUICK_SECONDS if quick else TIMEOUT_SECONDS
    measured: dict[str, dict[str, Any]] = {side: {"runs": []} for side in commands}
    for turn in range(runs):
        for side in list(measured):
            if turn and quick and side in CASES[case].only_once:
                continue
            try:
                one = measure(commands[side], _folder(side), limit, seed=turn + 1)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                if side not in RIVALS:
                    raise
                sys.stdout.write(f"left out: {case}, {side}: {error}\n")
                del measured[side]
                continue
            _say(f"{case}, {side}, run {turn + 1}", one)
            measured[side]["runs"].append(one)
    of_all = not quick or CASES[case].floats is None
    for side, found in measured.items():
        if of_all and not (quick and side in CASES[case].only_once):
            found["watched"] = watch(commands[side], _folder(side), limit)
            _say(f"{case}, {side}, watched", found["watched"])
    return measured


def _folder(side: str) -> Path:
    return ROOT if side in OURS else HERE


def _say(what: str, found: dict[str, Any]) -> None:
    sys.stdout.write(f"{what}: {json.dumps(found)}\n")
    sys.stdout.flush()


def joined(result: dict[str, Any], case: str, measured: dict[str, Any]) -> dict[str, Any]:
    """Return the results with what was measured beside what was there."""
    kept = result["cases"].get(case, {}).get("sides", {})
    new = {side: {"summary": summary(**found), **found} for side, found in measured.items()}
    shape = CASES[case]
    about = {"agents": shape.agents, "floats": shape.floats}
    return {
        "claim": "fleet_overhead",
        "machine": describe_machine("numpy"),
        "cases": {**result["cases"], case: {**about, "sides": {**kept, **new}}},
        "notes": result.get("notes", []),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "peers")
    parser.add_argument("--torch", default="torch", help="what is installed with each peer")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--runs", type=int, default=None, help="of each side; 5 if left out")
    parser.add_argument("--quick", action="store_true", help="fewer runs, rounds and sides")
    parser.add_argument("--out", type=Path, default=None, help="JSON; Markdown beside it")
    arguments = parser.parse_args()
    out = arguments.out or (None if arguments.quick else RESULTS)
    result: dict[str, Any] = {"cases": {}}
    if out is not None and out.exists():
        result = json.loads(out.read_text("utf-8"))
    for case in arguments.cases:
        commands = commands_of(case, arguments.sides, arguments)
        runs = arguments.runs or (CASES[case].quick_runs if arguments.quick else 5)
        measured = measure_all(case, commands, runs, quick=arguments.quick)
        result = joined(result, case, measured)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            out.with_suffix(".md").write_text(tables(result), encoding="utf-8")
    sys.stdout.write(f"\n{tables(result)}")


if __name__ == "__main__":
    main()
