"""The numbers of a finished run that stand in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.run_folders import processor_seconds
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics

_MEBI = 2**20


def measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return a run's numbers: percent, points, MiB of one device in one stage, seconds."""
    metrics = results.first
    return {
        "accuracy": [round(100 * stage.accuracy, 2) for stage in metrics.stages],
        "average": _hundredths(metrics, "average_incremental_accuracy"),
        "last": _hundredths(metrics, "final_accuracy"),
        "forgetting": _hundredths(metrics, "forgetting"),
        **traffic(metrics),
        "device_seconds": round(metrics.headline["compute_seconds_per_device"], 2),
        "processor_seconds": processor_seconds(folder),
    }


def traffic(metrics: SeedMetrics) -> dict[str, float]:
    """Return what a device sends and receives in a stage, on average, in MiB.

    What devices send to a proxy is among what they send.
    """
    there = sum(stage.devices for stage in metrics.stages)
    gradients = sum(
        stage.proxy.gradient_bytes or 0 for stage in metrics.stages if stage.proxy is not None
    )
    return {
        "mib_up": round(metrics.headline["bytes_up"] / there / _MEBI, 3),
        "mib_down": round(metrics.headline["bytes_down"] / there / _MEBI, 3),
        "mib_gradients": round(gradients / there / _MEBI, 3),
    }


def _hundredths(metrics: SeedMetrics, name: str) -> float:
    return round(100 * metrics.headline[name], 2)
