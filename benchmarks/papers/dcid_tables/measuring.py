"""The numbers of a finished case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run_folders import processor_seconds
from fleetledger.simulator.metrics.over_seeds import summary
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics

KINDS = ("images", "logits", "weights")


def measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return the numbers of a finished case: percent, points, bytes and seconds."""
    seeds = results.seeds.values()
    return {
        "seeds": list(results.seeds),
        "accuracy": {seed: _by_stage(metrics) for seed, metrics in results.seeds.items()},
        "base": _over([_by_stage(metrics)[0] for metrics in seeds]),
        "average": _over([float(np.mean(_by_stage(metrics))) for metrics in seeds]),
        "final": _over([_by_stage(metrics)[-1] for metrics in seeds]),
        "forgetting": _over([100 * metrics.headline["forgetting"] for metrics in seeds]),
        "bytes_per_session": _bytes(results),
        "shared_images": results.first.stages[-1].shared_images,
        "processor_seconds": processor_seconds(folder),
    }


def _by_stage(metrics: SeedMetrics) -> list[float]:
    return [round(100 * stage.accuracy, 2) for stage in metrics.stages]


def _over(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean and sample deviation over seeds."""
    found = summary(values)
    deviation = None if found.deviation is None else round(found.deviation, 2)
    return {"mean": round(found.mean, 2), "deviation": deviation}


def _bytes(results: RunResults) -> dict[str, int]:
    """Return bytes of a session after the first, of the whole fleet: means over sessions, seeds."""
    sessions = [stage for metrics in results.seeds.values() for stage in metrics.stages[1:]]
    return {
        f"{kind} {direction}": round(
            float(np.mean([getattr(s, field).get(kind, 0) for s in sessions]))
        )
        for kind in KINDS
        for direction, field in (("up", "sent"), ("down", "received"))
    }
