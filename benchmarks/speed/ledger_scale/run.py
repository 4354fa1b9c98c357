"""Measure how long a ledger of many entries takes to open, to ask and to verify.

Ledgers are written once by the ledger's own writer, and kept (`--folder`). Each is

    open all    opened as a coordinator does where no state is kept: all entries are read
    open        the same with the state that was kept 10,000 entries ago
    status      asked by `fleetledger coordinator status`, from the program's start to its end
    verify      by `fleetledger ledger verify`, with one process (alone) and with one for each core

each in a program of its own, one after the other.

    python -m benchmarks.speed.ledger_scale.run [--entries 100000 1000000]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.ledger_scale.life import Life, life_in
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold, keep_snapshot
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.schemas.values import FleetId

RESULTS = RESULTS_FOLDER / "ledger_scale.json"
LIMITS = {
    ("open", 1_000_000): 3.0,
    ("status", 1_000_000): 1.0,
    ("verify", 100_000): 10.0,
}
"""Seconds by the clock, with so many entries."""
TAIL = 10_000
"""Entries behind the kept state: as many as there are from one snapshot to the next by default."""
_DOOR = ("-m", "fleetledger")
_OPENING = ("-m", "benchmarks.speed.ledger_scale.opening")


def timed(*words: str) -> dict[str, float]:
    """Run a program that succeeds; return its seconds, and those of the processor.

    The latter are those of its processes, too.
    """
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        program = subprocess.Popen([sys.executable, *words], stdout=said, stderr=said)
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        said.seek(0)
        if program.returncode:
            sys.exit(said.read().decode("utf-8", "replace"))
    return {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
    }


def measured(home: Path, rounds: int) -> Iterator[tuple[str, list[dict[str, float]]]]:
    """Yield what was measured, and each of its runs."""
    place, snapshots = ("--home", str(home)), ledger_path(home).parent / "snapshots"
    shutil.rmtree(snapshots, ignore_errors=True)
    yield "open all", [timed(*_OPENING, str(home))]
    shutil.rmtree(snapshots, ignore_errors=True)
    _keep_behind(home)
    yield "open", [timed(*_OPENING, str(home)) for _ in range(rounds)]
    yield "status", [timed(*_DOOR, "coordinator", "status", *place) for _ in range(rounds)]
    for name, more in (("verify alone", ("--jobs", "1")), ("verify", ())):
        yield name, [timed(*_DOOR, "ledger", "verify", *place, *more)]


def _keep_behind(home: Path) -> None:
    coordinator_key(home, FleetId("scale"))
    with ledger_of(home) as ledger:
        state = State()
        fold(state, ledger.entries(0, max(ledger.size - TAIL, 1)))
        keep_snapshot(ledger, state)


def measure(entries: int, devices: int, folder: Path, rounds: int) -> dict[str, Any]:
    """Return medians of everything, for a ledger of so many entries."""
    began = time.monotonic()
    home = life_in(Life(devices=devices, entries=entries), folder)
    print(f"{home}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    found: dict[str, Any] = {"entries": entries, "devices": devices}
    found["ledger_mib"] = round(ledger_path(home).stat().st_size / 2**20, 1)
    for name, runs in measured(home, rounds):
        found[name] = {
            unit: round(statistics.median(run[unit] for run in runs), 2) for unit in runs[0]
        }
        print(f"{name}: {found[name]}", file=sys.stderr)
    kept = [path.stat().st_size for path in (ledger_path(home).parent / "snapshots").iterdir()]
    return found | {"kept_state_mib": round(max(kept) / 2**20, 1)}


def broken_limits(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return what takes longer than it may, in words."""
    return [
        f"{name} of {entries} entries: {ledger[name]['seconds']} s, at most {limit}"
        for (name, entries), limit in LIMITS.items()
        for ledger in found
        if ledger["entries"] == entries and ledger[name]["seconds"] > limit
    ]


def main() -> None:
    """Measure, print and write the results; fail where one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5, help="of opening and of status")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where ledgers are kept"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = [
        measure(entries, given.devices, given.folder, given.rounds) for entries in given.entries
    ]
    report = {
        "command": f"python -m benchmarks.speed.ledger_scale.run {' '.join(sys.argv[1:])}".strip(),
        "machine": describe_machine("pydantic", "sqlite-utils"),
        "limits": {f"{name} {entries}": limit for (name, entries), limit in LIMITS.items()},
        "ledgers": found,
    }
    text = json.dumps(report, indent=2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    if broken := broken_limits(found):
        sys.exit("\n".join(["beyond a limit:", *broken]))


if __name__ == "__main__":
    main()
