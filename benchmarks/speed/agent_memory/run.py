"""Measure the memory of an agent that runs MobileNetV2 at 112 pixels and has contributed once.

A real broker, a coordinator process and an agent process, nothing else. Looked at:

    idle       connected and welcomed, before any model is loaded
    working    after one contribution, with the fleet's model installed and measured
    later      fifteen seconds after that
    peak       the most that it ever held (VmHWM)
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.agent_memory.fleet import Case, fleet, until
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.device_agent.home.status_file import read_status

PACKAGES = ("numpy", "onnxruntime", "paho-mqtt", "pydantic")
RESULTS = RESULTS_FOLDER / "agent_memory.json"
LIMIT_MB = 98.0
"""The promise: resident, in millions of bytes, without torch."""
LATER_SECONDS = 15.0
CASES = (
    Case(),
    Case(form="exact"),
    Case(images=1000),
    Case(size=224),
    Case(preset="best", images=400),
    Case(preset="best", images=400, size=160),
    Case(preset="best", images=400, size=224),
)


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Run one fleet and return what its agent held, in MiB."""
    began = time.monotonic()
    with fleet(folder, case) as (agent, home):
        until(lambda: read_status(home / "status.json") is not None)
        idle = agent.memory()
        until(lambda: is_done(folder / "coordinator" / "ledger" / "ledger.db"))
        time.sleep(3.0)
        working = agent.memory()
        time.sleep(LATER_SECONDS)
        later = agent.memory()
        status = read_status(home / "status.json")
        assert status is not None
        assert status.parts.get("accepted", 0) >= 1, "no contribution was accepted"
        assert status.active_version is not None, "no model runs"
        modules = loaded_libraries(agent.process.pid)
    return {
        "case": vars(case),
        "idle": idle,
        "working": working,
        "later": later,
        "printed_by_status": status.resident_mib,
        "traffic": {"up": status.bytes_up, "down": status.bytes_down},
        "torch_loaded": any("torch" in name for name in modules),
        "seconds": round(time.monotonic() - began, 1),
    }


def is_done(ledger: Path) -> bool:
    """Whether the device has measured a model."""
    with LedgerReader.open_read_only(ledger) as reader:
        return any(entry.kind == "device.evaluated" for entry in reader.entries())


def loaded_libraries(process: int) -> set[str]:
    """Return the names of the files that a process has mapped."""
    lines = Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()
    return {Path(line.split()[-1]).name for line in lines if "/" in line}


def beside(stored: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return stored results with the cases that were found, each with its machine."""
    measured = [{**one, "machine": found["machine"]} for one in found["cases"]]
    keys = [one["case"] for one in measured]
    return {**stored, "cases": [c for c in stored["cases"] if c["case"] not in keys] + measured}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--preset", choices=("default", "best"), help="only cases of this preset")
    arguments = parser.parse_args()
    cases = []
    for case in (case for case in CASES if arguments.preset in (None, case.preset)):
        runs = []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as scratch:
                runs.append(measure(case, Path(scratch)))
        middle = sorted(runs, key=lambda run: run["working"]["resident"])[len(runs) // 2]
        middle["n"] = len(runs)
        middle["resident_range"] = [
            min(run["working"]["resident"] for run in runs),
            max(run["working"]["resident"] for run in runs),
        ]
        resident = [run["printed_by_status"] * 2**20 / 1e6 for run in runs]
        middle["resident_mb"] = round(statistics.median(resident), 1)
        cases.append(middle)
        print(json.dumps(middle))
    result = {
        "claim": "agent_memory",
        "limit_mb": LIMIT_MB,
        "machine": describe_machine(*PACKAGES),
        "cases": cases,
    }
    if arguments.preset and arguments.out.exists():
        result = beside(json.loads(arguments.out.read_text("utf-8")), result)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    worst = cases[0]["resident_mb"]
    if worst > LIMIT_MB:
        raise SystemExit(f"{worst} MB resident exceed the promised {LIMIT_MB} MB")


if __name__ == "__main__":
    main()
