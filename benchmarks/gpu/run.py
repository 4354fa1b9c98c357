"""Measure local training on a GPU within a budget: loop and stack, precisions, memory, GPU share.

    python -m benchmarks.gpu.run --budget 540             # on a machine with a GPU
    python -m benchmarks.gpu.run --device cpu --small --budget 60 --out FILE    # tries the command

Each row is kept in the file of results as soon as it is measured; the same command goes on where
the last one stopped. Rows: README.md. Needs torch, numpy, safetensors, pydantic and zstandard.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.gpu.budget import Budget, Clock, OutOfTimeError
from benchmarks.gpu.checkpoint import Checkpoint, CheckpointError
from benchmarks.gpu.entries import Entry, Place, entries
from benchmarks.gpu.machine import describe, refusal
from benchmarks.gpu.table import table

RESULTS = RESULTS_FOLDER / "gpu.json"


def measure(
    rows: Sequence[Entry], place: Place, checkpoint: Checkpoint, budget: Budget
) -> list[str]:
    """Measure the rows that the checkpoint lacks while the budget lasts; return what is left.

    A row that fails is kept as failed, with what was said, and the others go on.
    """
    missing = [row for row in rows if not checkpoint.has(row.name, row.work(place.small))]
    for number, row in enumerate(missing):
        left = [later.name for later in missing[number:]]
        if budget.left() <= 0:
            return left
        work = dict(row.work(place.small))
        try:
            found = row.measure(place, budget.share(len(left)))
        except OutOfTimeError as error:
            print(f"{row.name}: {error}; give more --budget if it is the first", file=sys.stderr)
            return left
        except (RuntimeError, MemoryError, ValueError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        checkpoint.put(row.name, {"work": work, **found})
        print(f"{row.name}: {json.dumps(found)}", flush=True)
    return []


def run(arguments: argparse.Namespace, clock: Clock = time.perf_counter) -> int:
    """Measure, write and print; return the exit status.

    0: all that was measured is right, whether all of it is or not; 1: ways differ or rows failed;
    2: nothing could be measured.
    """
    budget = Budget.starting(arguments.budget, clock)
    reason = refusal(arguments.device, small=arguments.small)
    if reason is None and not arguments.budget > 0:
        reason = f"--budget: {arguments.budget:g}; give a number of seconds above 0"
    if reason is None and arguments.small and arguments.out is None:
        reason = "--out: missing; tiny sizes are not written to the place of what was measured"
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    place = Place(arguments.device, arguments.small)
    try:
        checkpoint = Checkpoint.opened(arguments.out or RESULTS, _about(place))
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 2
    left = measure(list(entries()), place, checkpoint, budget)
    text = table({"about": checkpoint.about, "entries": checkpoint.entries})
    checkpoint.path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    if left:
        print(f"left, the same command goes on with them: {'; '.join(left)}", file=sys.stderr)
    return int(any(_wrong(entry) for entry in checkpoint.entries.values()))


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--budget", type=float, default=540.0, help="seconds, of this run")
    parser.add_argument("--device", default="cuda", help="as torch names it: cuda, cuda:1")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the command")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/gpu.json")
    return parser.parse_args(words)


def _about(place: Place) -> dict[str, Any]:
    return {
        "command": "python -m benchmarks.gpu.run",
        "device": place.device,
        "small": place.small,
        "threads": torch.get_num_threads(),
        "machine": describe(place.device),
    }


def _wrong(entry: dict[str, Any]) -> bool:
    return "failed" in entry or entry.get("equal") is False


if __name__ == "__main__":
    sys.exit(run(parsed()))
