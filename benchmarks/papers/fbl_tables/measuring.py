"""The numbers of a finished run: mIoU by task, by class at the end, and what was noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.run_folders import processor_seconds
from fleetledger.simulator.metrics.results import RunResults

_NOTICING = ("began", "at_once", "late", "missed", "false_alarms")


def measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return the numbers of a run of one seed: percent, counts, bytes and seconds."""
    metrics = results.first
    last = metrics.stages[-1]
    return {
        "seed": next(iter(results.seeds)),
        "miou": [percent(stage.accuracy) for stage in metrics.stages],
        "old": percent(last.old_accuracy),
        "new": percent(last.new_accuracy),
        "tasks": [percent(value) for value in last.task_iou],
        "classes": {name: percent(value) for name, value in last.class_iou.items()},
        "noticed": {
            name: sum(getattr(device, name) for device in metrics.noticing) for name in _NOTICING
        },
        "sent_bytes": round(sum(stage.bytes_up.total for stage in metrics.stages)),
        "received_bytes": round(sum(stage.bytes_down.total for stage in metrics.stages)),
        "processor_seconds": processor_seconds(folder),
    }


def percent(share: float | None) -> float | None:
    """Return a share in percent; None where nothing is known."""
    return None if share is None else round(100 * share, 1)
