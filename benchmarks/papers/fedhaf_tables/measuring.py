"""The numbers of a finished case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run_folders import processor_seconds
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.run.folder import RunFolder

_COMPARED = 9
"""Tasks whose mean the paper prints."""


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
        "processor_seconds": processor_seconds(folder),
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
