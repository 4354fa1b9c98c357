"""Run a year of 200 cameras with an image an hour through the coordinator, in minutes.

Time is simulated. The coordinator's core, ledger, sums, solves and exports are the program's own,
and cameras give parts when the agent's own rules say so. What is measured is told by quarters of
the time: where something grew with the history, the last quarter would cost more than the first.

    python -m benchmarks.long_run.run [--days 365] [--devices 200]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.long_run.camera import parts_of
from benchmarks.long_run.fleet import HOUR, Fleet, Quarter
from benchmarks.machine import describe_machine

RESULTS = Path(__file__).resolve().parents[1] / "results" / "long_run.json"
_QUARTERS = 4


def live(days: int, devices: int, folder: Path) -> dict[str, Any]:
    """Live through so many days; return what they cost."""
    schedule = parts_of(days, folder)
    home = folder / "home"
    home.mkdir()
    fleet = Fleet(home, devices)
    quarters: list[Quarter] = []
    given: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in range(devices):
        for seconds, images in schedule:
            given[int(seconds / HOUR + 24 * number / devices)].append((number, images))
    events = {
        days // 8: lambda: fleet.replace(fleet.names[0]),
        days // 4: fleet.restart,
        days // 2: lambda: fleet.restore_backup(folder),
        5 * days // 8: lambda: fleet.retire(fleet.names[-1]),
        3 * days // 4: fleet.restart,
    }
    for hour in range(24 * days):
        if hour % (24 * days // _QUARTERS) == 0 and len(quarters) < _QUARTERS:
            quarters.append(Quarter())
            fleet.quarter = quarters[-1]
        fleet.clock.now = hour * HOUR
        if hour % 24 == 0 and hour // 24 in events:
            events.pop(hour // 24)()
        here = [
            (fleet.names[number], images)
            for number, images in given.pop(hour, ())
            if number < len(fleet.names)
        ]
        if here:
            fleet.give(here)
        for minute in range(0, 60, 10 if hour < 24 else 30):
            fleet.clock.now = hour * HOUR + 60 * minute
            fleet.look()
    ledger = fleet.office.engine.ledger.path
    found = {
        "days": days,
        "devices": devices,
        "parts": len(fleet.office.engine.core.state.contributions.counted),
        "models": len(fleet.office.engine.core.state.models.by_version),
        "entries": fleet.size,
        "ledger_bytes": ledger.stat().st_size,
        "quarters": [_costs(quarter) for quarter in quarters],
    }
    fleet.close()
    return found


def _costs(quarter: Quarter) -> dict[str, Any]:
    return {
        "entries": quarter.entries,
        "models": quarter.models,
        "decide_ms_per_entry": round(1000 * quarter.deciding / max(quarter.entries, 1), 3),
        "solve_ms_median": round(1000 * statistics.median(quarter.solving or [0.0]), 1),
        "solve_ms_longest": round(1000 * max(quarter.solving, default=0.0), 1),
        "export_ms_per_model": round(1000 * quarter.exporting / max(quarter.models, 1), 1),
        "largest_body": dict(sorted(quarter.largest.items(), key=lambda item: -item[1])[:6]),
    }


def main() -> None:
    """Run it, print what it cost and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="long-run-", dir=options.folder))
    began = time.process_time()
    try:
        found = live(options.days, options.devices, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found["processor_seconds"] = round(time.process_time() - began, 1)
    found["machine"] = describe_machine("numpy")
    options.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
