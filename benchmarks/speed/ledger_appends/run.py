"""Measure group appends to the ledger against bare sqlite3 commits of the same rows.

All write to the same disk in the same run, in alternating order, one group per commit, WAL with
`synchronous=FULL`, one table. Three sides:

    ledger    drafts in; canonical bytes, leaf hashes, tree, checkpoint, append-only guards
    rows      finished rows in, made before the clock starts: the floor
    bodies    rows whose body is still a dictionary: `json.dumps`, then the same insert
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.values import DeviceId, Digest

RESULTS = RESULTS_FOLDER / "ledger_appends.json"
DIGEST = Digest.of(b"payload")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    groups: int
    entries_per_group: int


def body(number: int) -> dict[str, Any]:
    """Return a body like those of accepted contributions, about 400 bytes of JSON."""
    part = {
        "key": {"stage": 3, "part": number},
        "revision": 1,
        "payload_kind": "statistics",
        "payload": DIGEST,
        "payload_bytes": 312_345 + number,
        "samples": {f"class number {index}": 13 * index + 1 for index in range(5)},
        "method": "stsa",
        "lineage": DIGEST,
        "round": None,
    }
    return {"part": part, "replaces": None, "late": False, "installation": None}


def drafts(first: int, count: int) -> list[EntryDraft]:
    """Return a group as the coordinator hands it over."""
    device = DeviceId("device-7")
    return [
        EntryDraft("contribution.accepted", device, body(number), device, (DIGEST,))
        for number in range(first, first + count)
    ]


def time_ledger(path: Path, groups: Sequence[list[EntryDraft]]) -> float:
    """Return the seconds that the ledger needs for the groups."""
    with Ledger.open(path) as ledger:
        began = time.perf_counter()
        for group in groups:
            ledger.append(group)
        return time.perf_counter() - began


def time_bare(path: Path, groups: Sequence[list[tuple[Any, ...]]], *, dumps: bool) -> float:
    """Return the seconds that sqlite3 needs for the same rows, with or without making the JSON."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE entry (idx INTEGER PRIMARY KEY, time_ns INTEGER, kind TEXT, actor TEXT,"
        " device TEXT, body TEXT, blobs TEXT, leaf BLOB) STRICT"
    )
    began = time.perf_counter()
    for group in groups:
        rows = [(*row[:5], json.dumps(row[5]), *row[6:]) for row in group] if dumps else group
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    seconds = time.perf_counter() - began
    connection.close()
    return seconds


def one_round(folder: Path, plan: Plan, number: int) -> dict[str, float]:
    """Return the entries per second of each side, each on a fresh file; the order rotates."""
    size = plan.entries_per_group
    groups = [drafts(first * size, size) for first in range(plan.groups)]
    entries = [
        [Entry.from_draft(draft, first * size + n, 1) for n, draft in enumerate(group)]
        for first, group in enumerate(groups)
    ]
    rows: list[list[tuple[Any, ...]]] = [[entry.to_row() for entry in group] for group in entries]
    bodies: list[list[tuple[Any, ...]]] = [
        [(*row[:5], entry.body, *row[6:]) for row, entry in zip(*pair, strict=True)]
        for pair in zip(rows, entries, strict=True)
    ]
    sides: list[tuple[str, Callable[[Path], float]]] = [
        ("ledger", lambda path: time_ledger(path, groups)),
        ("rows", lambda path: time_bare(path, rows, dumps=False)),
        ("bodies", lambda path: time_bare(path, bodies, dumps=True)),
    ]
    first = number % len(sides)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        seconds = {
            side: measure(Path(name) / f"{side}.db")
            for side, measure in sides[first:] + sides[:first]
        }
    return {side: plan.groups * size / value for side, value in seconds.items()}


def spread(values: Sequence[float], digits: int) -> dict[str, float]:
    """Return median and range."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in numbers.items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--groups", type=int, default=100, help="groups per round and side")
    parser.add_argument("--entries", type=int, default=64, help="entries per group")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="a folder on the disk to measure"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    plan = Plan(arguments.rounds, arguments.groups, arguments.entries)
    rounds = [one_round(arguments.folder, plan, number) for number in range(plan.rounds)]
    results = {
        "command": (
            f"python -m benchmarks.speed.ledger_appends.run {' '.join(sys.argv[1:])}"
        ).strip(),
        "machine": {**describe_machine("sqlite-utils"), "sqlite": sqlite3.sqlite_version},
        "plan": asdict(plan) | {"body_bytes": len(json.dumps(body(1), separators=(",", ":")))},
        "entries_per_second": {
            side: spread([speeds[side] for speeds in rounds], 0) for side in rounds[0]
        },
        "ledger_to_bare": {
            side: spread([speeds["ledger"] / speeds[side] for speeds in rounds], 3)
            for side in ("rows", "bodies")
        },
    }
    text = json.dumps(results, indent=2)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
