"""Measure what hiding single vectors costs, beside Flower's SecAgg+.

    python -m benchmarks.speed.masked_sums.run --environments FOLDER [--runs 3]

Cohorts of 8, 16, 32 and 64 members with 10,000 and 1,000,000 numbers, all present, and an eighth
silent once the cohort is formed. Each run is a process of its own; the sides take turns. Both hide
each vector behind a mask with every other member and one of its own, and open with two thirds:
Flower with `num_shares=1.0` and `reconstruction_threshold=2/3`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.speed.fleet_overhead.environments import python_of
from benchmarks.speed.fleet_overhead.measuring import ROOT, measure

RESULTS = ROOT / "benchmarks" / "results" / "masked_sums.json"
HERE = Path(__file__).resolve().parent
OURS = [sys.executable, "-m", "benchmarks.speed.masked_sums.own_side"]
FIGURES = ("device_seconds", "server_seconds", "bytes_up", "largest_error")
TIMEOUT_SECONDS = 1800.0


def measured(
    sides: dict[str, list[str]], case: tuple[int, int, int], runs: int
) -> dict[str, dict[str, float]]:
    """Return the medians of each side for so many members, numbers and silent ones."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(runs):
        for side, words in sides.items():
            folder = ROOT if side == "fleetledger" else HERE
            found[side].append(measure([*words, *map(str, case)], folder, TIMEOUT_SECONDS))
    return {
        side: {name: statistics.median(run[name] for run in of) for name in FIGURES}
        for side, of in found.items()
    }


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| members | silent | numbers | side | device, s | server, s | MB up | largest error |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row['members']} | {row['silent']} | {row['numbers']:,} | {row['side']} "
        f"| {row['device_seconds']:.3f} | {row['server_seconds']:.3f} "
        f"| {row['bytes_up'] / 1e6:.3f} | {row['largest_error']:.2g} |"  # type: ignore[operator]
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "peers")
    parser.add_argument("--members", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--numbers", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=3, help="of each side")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    sides = {"fleetledger": OURS}
    python = python_of("flwr", arguments.environments)
    if python is not None:
        sides["flower"] = [str(python), str(HERE / "flower_side.py")]
    rows: list[dict[str, object]] = []
    for numbers in arguments.numbers:
        for members in arguments.members:
            for silent in (0, members // 8):
                of = measured(sides, (members, numbers, silent), arguments.runs)
                shape = {"members": members, "numbers": numbers, "silent": silent}
                rows += [{**shape, "side": side, **figures} for side, figures in of.items()]
                sys.stdout.write(table(rows[-len(of) :]).split("\n", 2)[2])
                sys.stdout.flush()
    told = {"claim": "masked_sums", "machine": describe_machine("numpy"), "rows": rows}
    arguments.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
