"""Measure this version beside a former one: both take turns, each measurement in its own process.

A process runs in the folder of its checkout and so measures the code that lies there, by that
checkout's own benchmarks where these exist. Ratios are within a round, the order alternates.

    appends         entries per second into a ledger, 64 to a commit (`ledger_appends`)
    contributions   per second through a coordinator's process over Mosquitto (`contribution_rate`)
    signed          the same, from devices that sign
    start-up        seconds until a coordinator has carried out a command on a ledger of 100,000
                    entries and ended: it replays them all, and makes tables anew that the
                    version declares otherwise
    agent memory    MiB resident of an agent that has contributed and runs a model (`agent_memory`)
    simulated       processor seconds of a later round of agents that do not train
                    (`fleet_overhead`; needs torch): five whole agents of a ResNet-18's size, light
                    agents of a million, of 10,000 and of 1,000 floats

    git worktree add ../former COMMIT
    python -m benchmarks.former_version.compare ../former [--rounds 5] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contribution_rate.load import FLEET, Plan, fill, make_home
from benchmarks.contribution_rate.run import spread
from benchmarks.machine import describe_machine
from fleetledger.coordinator.settings import FILE_NAME
from fleetledger.transport.brokers import MosquittoBroker

NOW = Path(__file__).resolve().parents[2]
RESULTS = NOW / "benchmarks" / "results" / "former_version.json"
DEVICES = 100
_MEMORY = """
import json, sys, tempfile
from pathlib import Path
from benchmarks.agent_memory.fleet import Case
from benchmarks.agent_memory.run import measure
with tempfile.TemporaryDirectory() as folder:
    found = measure(Case(), Path(folder))
Path(sys.argv[1]).write_text(json.dumps(found))
"""
_SIMULATED = """
import sys
from benchmarks.fleet_overhead.sides import fleetledger_side
fleetledger_side.HIDDEN |= {1_000: [13], 11_200_000: [3100, 3550]}
fleetledger_side.main()
"""
SIMULATED = {
    "whole, 5 x 11,217,152": (5, 11_200_000, 4, "full"),
    "light, 100 x 999,798": (100, 1_000_000, 4, "light"),
    "light, 1,000 x 9,999": (1_000, 10_000, 8, "light"),
    "light, 10,000 x 873": (10_000, 1_000, 4, "light"),
}
"""Agents, floats, rounds and kind of agents."""
SCENARIOS = ("digits-lga", "digits-fedhaf")
_SETTINGS = """
fleet = "{fleet}"
[method.settings]
map_width = 8
form = "exact"
max_contributions = {most}
"""
_WHERE = "import coordinator; print(coordinator.__file__)"


@dataclass(frozen=True)
class Bench:
    """What all measurements share."""

    folder: Path
    """For files, on the disk that is measured."""
    home: Path
    """A coordinator's with a long ledger, which is copied."""
    parts: int
    """Contributions of each of fifty devices in a round."""


Measure = Callable[[Bench, Path], Mapping[str, float]]


def appends(bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return entries per second."""
    found = _benchmark(bench, checkout, "ledger_appends", "--rounds", "1")
    return {"appends": found["entries_per_second"]["ledger"]["median"]}


def contributions(bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return contributions per second, plain and signed."""
    words = ("--rounds", "1", "--parts", str(bench.parts))
    found = _benchmark(bench, checkout, "contribution_rate", *words)["contributions_per_second"]
    return {
        "contributions": found["coordinator"]["median"],
        "signed": found["signed"]["median"],
    }


def start_up(bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return the seconds of a whole program that replays the ledger and appends one entry."""
    home = bench.folder / "home"
    shutil.copytree(bench.home, home)
    words = ("-m", "fleetledger", "coordinator", "admit", "newcomer", "--home", str(home))
    try:
        began = time.perf_counter()
        _run(checkout, *words)
        return {"start-up": time.perf_counter() - began}
    finally:
        shutil.rmtree(home)


def agent_memory(bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return MiB resident."""
    out = bench.folder / "memory.json"
    _run(checkout, "-c", _MEMORY, str(out))
    return {"agent memory": json.loads(out.read_text("utf-8"))["working"]["resident"]}


def simulated(_bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return processor seconds of a later round, of all programs that take part."""
    found = {}
    for name, case in SIMULATED.items():
        told = _run(checkout, "-c", _SIMULATED, *map(str, case)).strip().splitlines()[-1]
        found[name] = median(json.loads(told)["round_process_seconds"][1:])
    return found


def scenarios(bench: Bench, checkout: Path) -> Mapping[str, float]:
    """Return seconds of whole runs, all programs of a run together where the processor's."""
    found = {}
    for name in SCENARIOS:
        out = bench.folder / name
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            _run(checkout, "-m", "fleetledger", "simulate", name, "--out", str(out))
            found[f"{name}, wall"] = time.perf_counter() - began
        finally:
            shutil.rmtree(out, ignore_errors=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        found[f"{name}, processor"] = spent
    return found


MEASURES: dict[str, Measure] = {
    "appends": appends,
    "contributions": contributions,
    "start-up": start_up,
    "agent-memory": agent_memory,
    "simulated": simulated,
    "scenarios": scenarios,
}


def _benchmark(bench: Bench, checkout: Path, name: str, *words: str) -> dict[str, Any]:
    """Run a checkout's own benchmark; return what it writes down."""
    out = bench.folder / f"{name}.json"
    _run(checkout, "-m", f"benchmarks.{name}.run", *words, "--out", str(out))
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return found


def _run(checkout: Path, *words: str) -> str:
    """Run Python in a checkout; return what it prints, raise `RuntimeError` with why it failed."""
    done = subprocess.run(
        [sys.executable, *words], cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{checkout}: {' '.join(words)[:200]}: {done.stderr[-2000:]}")
    return done.stdout


def long_ledger(home: Path, entries: int) -> None:
    """Make a home whose ledger holds so many contributions of a hundred devices.

    Its settings are few, so that a former version knows them all.
    """
    plan = Plan(rounds=1, devices=DEVICES, parts=entries // DEVICES, window=1, map_width=8)
    broker = MosquittoBroker(home.parent / "broker", plan.names)
    fill(home, plan, make_home(home, plan, broker))
    (home / FILE_NAME).write_text(_SETTINGS.format(fleet=FLEET, most=entries), encoding="utf-8")


def measure(
    bench: Bench, sides: Mapping[str, Path], names: Sequence[str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    """Return for each figure both sides' values in every round."""
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):
        order = list(sides)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            seen = {side: MEASURES[name](bench, sides[side]) for side in order}
            for figure in seen["now"]:
                values = {side: seen[side][figure] for side in sides}
                found.setdefault(figure, []).append(values)
                print(figure, number + 1, values, file=sys.stderr)
    return found


def summary(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return medians and ranges of both sides, and of what now is divided by what was."""
    return {
        figure: {
            "former": spread([one["former"] for one in values], 2),
            "now": spread([one["now"] for one in values], 2),
            "now_to_former": spread([one["now"] / one["former"] for one in values], 3),
        }
        for figure, values in found.items()
    }


def table(told: Mapping[str, Any]) -> str:
    """Return the figures as a table of Markdown."""
    lines = ["| | former | now | now / former | range |", "| --- | --- | --- | --- | --- |"]
    for figure, of in told.items():
        ratio = of["now_to_former"]
        lines.append(
            f"| {figure} | {of['former']['median']:,} | {of['now']['median']:,} "
            f"| {ratio['median']} | {ratio['min']} to {ratio['max']} |"
        )
    return "\n".join(lines)


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", type=Path, help="a checkout of the former version")
    parser.add_argument("--now", type=Path, default=NOW, help="the other checkout; by default this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--entries", type=int, default=100_000, help="of the ledger that is replayed"
    )
    parser.add_argument("--parts", type=int, default=100, help="contributions of each device")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sides = {"former": given.former.resolve(), "now": given.now.resolve()}
    for checkout in sides.values():
        where = Path(_run(checkout, "-c", _WHERE).strip())
        if not where.is_relative_to(checkout):
            raise SystemExit(f"{checkout}: its processes would measure {where}; give a checkout")
    with tempfile.TemporaryDirectory(dir=Path()) as name:
        folder = Path(name).resolve()
        if "start-up" in given.only:
            long_ledger(folder / "long", given.entries)
        found = measure(
            Bench(folder, folder / "long", given.parts), sides, given.only, given.rounds
        )
    results = {
        "command": f"python -m benchmarks.former_version.compare {' '.join(sys.argv[1:])}",
        "machine": describe_machine("numpy", "pydantic", "sqlite-utils"),
        "commits": {side: _commit(checkout) for side, checkout in sides.items()},
        "rounds": given.rounds,
        "figures": summary(found),
    }
    given.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(table(results["figures"]))


if __name__ == "__main__":
    main()
