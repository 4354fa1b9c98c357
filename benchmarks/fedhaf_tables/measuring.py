"""One case in a run folder, gone on with where it was stopped, and its numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from simulator.metrics.results import FILE_NAME, RunResults
from simulator.metrics.seed_metrics import SeedMetrics
from simulator.run.folder import RunFolder
from simulator.run.running import resume_run, run_scenario
from simulator.scenario.loading import load_scenario

_COMPARED = 9
"""Tasks whose mean the paper prints."""


def run_case(scenario: str, changes: Sequence[str], folder: Path) -> RunResults:
    """Bring a case to its end: from its start, from where it stopped, or not at all."""
    if (folder / FILE_NAME).exists():
        return RunResults.read(folder)
    console = Console(stderr=True)
    with _processor_time(folder):
        if (folder / "run.json").exists():
            return resume_run(folder, console)
        return run_scenario(load_scenario(scenario, changes), folder, console)


def measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return the numbers of a finished case: percent, points, bytes and seconds."""
    (seed,) = results.seeds
    metrics = results.first
    by_stage = [100 * stage.accuracy for stage in metrics.stages]
    return {
        "seed": seed,
        "accuracy": [round(value, 2) for value in by_stage],
        "average": round(sum(by_stage) / len(by_stage), 2),
        "average_of_nine": round(sum(by_stage[:_COMPARED]) / len(by_stage[:_COMPARED]), 2),
        "last": round(by_stage[-1], 2),
        "forgetting": round(100 * metrics.headline["forgetting"], 2),
        **_kinds_of_error(metrics),
        **_traffic(metrics, RunFolder(folder), seed),
        "stored_samples": round(metrics.headline["stored_samples"]),
        "processor_seconds": _spent(folder),
    }


def _kinds_of_error(metrics: SeedMetrics) -> dict[str, float]:
    """Return what the accuracy after the last task is made of, and how well new tasks are learned.

    An answer is right when it names the right task, and within it the right class.
    """
    confusion = np.array(metrics.task_confusion)
    right_task = float(np.trace(confusion) / confusion.sum())
    new = [stage.new_accuracy for stage in metrics.stages[1:]]
    return {
        "right_task": round(100 * right_task, 2),
        "right_class_within_task": round(100 * metrics.stages[-1].accuracy / right_task, 2),
        "new_tasks": round(100 * float(np.mean(new)), 2),
    }


def _traffic(metrics: SeedMetrics, folder: RunFolder, seed: int) -> dict[str, int]:
    """Return bytes by the transport: for each answer to a round, or each device and stage."""
    records = folder.seed(seed).records()
    answers = sum(round_.counted for record in records for round_ in record.rounds)
    sent = metrics.headline["bytes_up"]
    if answers and sent:
        return {"answers": answers, "bytes_up_per_round_and_device": round(sent / answers)}
    there = sum(len(record.devices) for record in records)
    return {"bytes_up_per_stage_and_device": round(sent / there)} if sent else {}


@contextmanager
def _processor_time(folder: Path) -> Iterator[None]:
    """Add the seconds of all threads of this process to what the folder knows."""
    before = time.process_time()
    try:
        yield
    finally:
        if folder.exists():
            with (folder / "processor.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(round(time.process_time() - before, 1)) + "\n")


def _spent(folder: Path) -> float | None:
    path = folder / "processor.jsonl"
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").split()
    return round(sum(float(line) for line in lines), 1)
