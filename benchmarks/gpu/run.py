"""Decide a paper's claim on a GPU, and measure local training, within a budget of seconds.

    python -m benchmarks.gpu.run --budget 540 --cifar100 cifar100.npz     # on a machine with a GPU
    python -m benchmarks.gpu.run --budget 540 --only engine               # local training alone
    python -m benchmarks.gpu.run --device cpu --small --budget 60 --out FILE    # tries the command

Studies come first and take two thirds of the budget while they are unfinished. Each row is kept in
the file of results as soon as it is measured; the same command goes on where the last one stopped.
Rows: README.md. The engine's need torch, numpy, safetensors, pydantic and zstandard; studies need
an installation with the extras simulator, train and cpu.
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
from benchmarks.arguments import names_among
from benchmarks.gpu.budget import Budget, Clock, OutOfTimeError
from benchmarks.gpu.checkpoint import Checkpoint, CheckpointError
from benchmarks.gpu.entries import Entry, Place, entries
from benchmarks.gpu.machine import describe, refusal
from benchmarks.gpu.studies import Row, Study, data_of, step_seconds, studies
from benchmarks.gpu.table import table
from fleetledger.runtime.errors import FleetledgerError

RESULTS = RESULTS_FOLDER / "gpu.json"
STUDY_SHARE = 2 / 3
"""Of what is left of a budget, for studies that are unfinished."""
_FAILURES = (ImportError, RuntimeError, MemoryError, ValueError, FleetledgerError)
_NO_DATA = (
    "left out, there is no CIFAR-100; give --cifar100 a file or packs, or the folder of "
    "cifar100.npz in FLEETLEDGER_DATA"
)


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


def study(
    found: Checkpoint, place: Place, arguments: argparse.Namespace, budget: Budget
) -> list[str]:
    """Go on with the first unfinished study, then with others; return what is left of them."""
    runs = arguments.runs or found.path.with_suffix(".runs")
    data = data_of(arguments.cifar100, runs)
    if data is None and not place.small:
        return [f"{one.name}: {_NO_DATA}" for one in studies()]
    ends, left = budget.left() * (1 - STUDY_SHARE), list[str]()
    for one in studies():
        if left or budget.left() <= ends:
            left.append(one.name)
            continue
        try:
            rows = _rows(one, found, place, data, budget.left() - ends)
        except _FAILURES as error:
            told: dict[str, Any] = {"failed": f"{type(error).__name__}: {error}"}
            found.put(f"{one.name}, its size", {"work": {}, **told})
            continue
        missing = [row for row in rows if not found.has(row.name, row.work(place.small))]
        for number, row in enumerate(missing):
            seconds = (budget.left() - ends) / (len(missing) - number)
            if seconds > 0:
                _go_on(row, found, place, (data, runs), seconds)
        left += [row.name for row in missing if not found.has(row.name, row.work(place.small))]
    return left


def _go_on(
    row: Row, found: Checkpoint, place: Place, files: tuple[Path | None, Path], seconds: float
) -> None:
    """Go on with an arm, and keep what is known of it by then."""
    try:
        told = row.go_on(place, *files, seconds)
    except _FAILURES as error:
        told = {"failed": f"{type(error).__name__}: {error}"}
    spent = float(found.entries.get(row.name, {}).get("study_seconds", 0.0))
    if "study_seconds" in told:
        told["study_seconds"] = round(told["study_seconds"] + spent, 1)
    found.put(row.name, {"work": row.work(place.small), **told})
    print(f"{row.name}: {json.dumps(told)}", flush=True)


def _rows(
    one: Study, found: Checkpoint, place: Place, data: Path | None, seconds: float
) -> list[Row]:
    """Return a study's arms with the local epochs that were chosen for it, now or before."""
    if data is None:
        images = 0
    else:
        from benchmarks.gpu.study_runs import images_of_class

        images = images_of_class(data)
    name, work = f"{one.name}, its size", {"images_of_class": images}
    if not found.has(name, work):
        step = step_seconds(place)
        epochs = one.epochs_within(seconds, step, images)
        found.put(name, {"work": work, "step_seconds": step, "epochs": epochs})
    epochs = int(found.entries[name]["epochs"])
    return [Row(one, arm, epochs, images) for arm in one.arms]


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
    left = study(checkpoint, place, arguments, budget) if "study" in arguments.only else []
    if "engine" in arguments.only:
        left += measure(list(entries()), place, checkpoint, budget)
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
    parser.add_argument(
        "--only", type=names_among(("study", "engine")), default=["study", "engine"]
    )
    parser.add_argument(
        "--cifar100", type=Path, nargs="+", help="a file, or difference-coded packs"
    )
    parser.add_argument("--runs", type=Path, help="folder of the studies' runs; beside --out")
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
