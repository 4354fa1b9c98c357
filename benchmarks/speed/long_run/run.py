"""Run a year of 200 cameras with an image an hour through the coordinator, in minutes.

Time is simulated. The coordinator's core, ledger, sums, solves and exports are the program's own,
and cameras give parts when the agent's own rules say so. On the way cameras are replaced and
retired, connections end, the coordinator starts again, another one runs beside it for a day, and a
backup is restored. What is measured is told by quarters of the time: where something grew with the
history, the last quarter would cost more than the first.

    python -m benchmarks.speed.long_run.run [--days 365] [--devices 200]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.long_run.camera import parts_of
from benchmarks.speed.long_run.fleet import HOUR, Fleet, Quarter

RESULTS = RESULTS_FOLDER / "long_run.json"
_QUARTERS = 4


def live(days: int, devices: int, folder: Path) -> dict[str, Any]:
    """Live through so many days; return what they cost."""
    home = folder / "home"
    home.mkdir()
    fleet = Fleet(home, devices)
    given = _given(parts_of(days, folder), devices)
    events = _events(days, fleet, folder)
    doubled = set(range(24 * (days // 3), 24 * (days // 3 + 1)))
    quarters: list[Quarter] = []
    waiting: list[tuple[int, int]] = []
    for hour in range(24 * days):
        if hour % (24 * days // _QUARTERS) == 0 and len(quarters) < _QUARTERS:
            quarters.append(Quarter())
            fleet.quarter = quarters[-1]
        fleet.clock.now = hour * HOUR
        waiting += given.pop(hour, ())
        for event in events.pop(hour // 24, ()):
            event()
        if hour in doubled:
            continue  # beside another coordinator nothing is given, taken in or decided
        parts, waiting = waiting, []
        here = [(fleet.names[n], images) for n, images in parts if n < len(fleet.names)]
        if here:
            fleet.give(here)
        for minute in range(0, 60, 10 if hour < 24 else 30):
            fleet.clock.now = hour * HOUR + 60 * minute
            fleet.look()
        fleet.keep_state()
    found = _found(fleet)
    fleet.close()
    return {"days": days, "devices": devices, **found, "quarters": list(map(_costs, quarters))}


def _given(schedule: list[tuple[float, int]], devices: int) -> dict[int, list[tuple[int, int]]]:
    """Return cameras and images of the parts of each hour; cameras begin spread over a day."""
    given: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in range(devices):
        for seconds, images in schedule:
            given[int(seconds / HOUR + 24 * number / devices)].append((number, images))
    return given


def _events(days: int, fleet: Fleet, folder: Path) -> dict[int, list[Callable[[], None]]]:
    """Return what happens to the fleet, by the day; other coordinators are `live`'s."""
    first, second, last = fleet.names[0], fleet.names[1], fleet.names[-1]
    happens: list[tuple[int, Callable[[], None]]] = [
        (days // 8, lambda: fleet.replace(first)),
        (days // 8 + 1, lambda: fleet.settle(first, kept=False)),
        (days // 4, fleet.restart),
        (3 * days // 8, fleet.reconnect),
        (days // 2, lambda: fleet.back_up(folder / "mirror")),
        (days // 2 + 1, lambda: fleet.restore_backup(folder / "mirror", folder / "restored")),
        (5 * days // 8, lambda: fleet.retire(last)),
        (11 * days // 16, lambda: fleet.replace(second)),
        (11 * days // 16 + 1, lambda: fleet.settle(second, kept=True)),
        (3 * days // 4, fleet.restart),
        (days - 1, fleet.restart),
    ]
    events: dict[int, list[Callable[[], None]]] = defaultdict(list)
    for day, event in happens:
        events[day].append(event)
    return events


def _found(fleet: Fleet) -> dict[str, Any]:
    engine = fleet.local.engine
    state = engine.core.state
    stages = Counter(rollout.stage for rollout in state.rollouts.by_number.values())
    return {
        "parts": len(state.contributions.counted),
        "models": len(state.models.by_version),
        "rollouts": dict(stages),
        "entries": fleet.size,
        "ledger_bytes": engine.ledger.path.stat().st_size,
        "payload_bytes": fleet.payload_bytes,
        "start_seconds": [round(seconds, 2) for seconds in fleet.starts],
        "largest_greeting_bytes": fleet.greeting_bytes,
    }


def _costs(quarter: Quarter) -> dict[str, Any]:
    return {
        "entries": quarter.entries,
        "models": quarter.models,
        "decide_ms_per_entry": round(1000 * quarter.deciding / max(quarter.entries, 1), 3),
        "solve_ms_median": round(1000 * statistics.median(quarter.solving or [0.0]), 1),
        "solve_ms_longest": round(1000 * max(quarter.solving, default=0.0), 1),
        "export_ms_per_model": round(1000 * quarter.exporting / max(quarter.models, 1), 1),
        "keep_state_ms_per_entry": round(1000 * quarter.keeping / max(quarter.entries, 1), 3),
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
