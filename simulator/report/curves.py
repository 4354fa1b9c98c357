"""Numbers of all seeds of a run as arrays, for pictures and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.metrics.metric import accuracy_matrix as seed_matrix
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import DeviceSpread, StageMetrics

Floats = NDArray[np.float64]
SpreadField = Literal["total", "mean", "deviation", "lowest", "fifth_percentile", "highest"]


def by_stage(results: RunResults, take: Callable[[StageMetrics], float | None]) -> Floats:
    """Return a number by seed and stage, (S, T), of the stages that all seeds have; NaN is None."""
    rows = [
        [take(stage) for stage in seed.stages[: results.stages]] for seed in results.seeds.values()
    ]
    return np.array(rows, np.float64)


def of_spread(
    take: Callable[[StageMetrics], DeviceSpread | None], field: SpreadField
) -> Callable[[StageMetrics], float | None]:
    """Return a function that takes one field of a stage's spread, None where there is none."""

    def field_of(stage: StageMetrics) -> float | None:
        spread = take(stage)
        return None if spread is None else float(getattr(spread, field))

    return field_of


def accuracy_matrix(results: RunResults) -> Floats:
    """Return a_{t,i} as the mean over seeds, (T, T), NaN above the diagonal."""
    stages = results.stages
    every = [seed_matrix(seed.stages[:stages]) for seed in results.seeds.values()]
    return over_known(every)


def task_confusion(results: RunResults) -> Floats:
    """Return the task confusion after the last stage as shares of each row's samples, (T, T).

    The mean over seeds that got through all stages; what has no answer is in no column. Of pixels
    a row and a column for background come first, and a row is NaN where no seed has such pixels.
    """
    shares = []
    for seed in results.seeds.values():
        counts = np.array(seed.task_confusion, np.float64)
        if len(seed.stages) == results.stages:
            asked = np.array(seed.stages[-1].task_total) if seed.score == "accuracy" else None
            whole = (counts.sum(axis=1) if asked is None else asked).astype(np.float64)[:, None]
            shares.append(
                np.divide(counts, whole, out=np.full_like(counts, np.nan), where=whole > 0)
            )
    return over_known(shares)


def over_known(values: Sequence[Floats]) -> Floats:
    """Return the mean of arrays of one shape, cell by cell over those that are not NaN."""
    stacked = np.array(values, np.float64)
    known = np.isfinite(stacked)
    count = known.sum(axis=0)
    mean = np.full(stacked.shape[1:], np.nan)
    np.divide(np.where(known, stacked, 0).sum(axis=0), count, out=mean, where=count > 0)
    return mean


def class_iou(results: RunResults) -> dict[ClassName, Floats]:
    """Return the IoU of background and each class by stage, (T,), mean over seeds that know it.

    In the order in which the first seed's classes came; NaN before a class came to any seed.
    """
    order = [ClassName(BACKGROUND), *(n for s in results.first.stages for n in s.class_names)]
    rows = {
        name: [
            [stage.class_iou.get(name, np.nan) for stage in seed.stages[: results.stages]]
            for seed in results.seeds.values()
        ]
        for name in order
    }
    return {
        name: over_known([np.array(row, np.float64) for row in found])
        for name, found in rows.items()
    }


def classes_seen(results: RunResults) -> list[int]:
    """Return how many classes were seen by each stage, in the first seed."""
    counts = [len(stage.class_names) for stage in results.first.stages[: results.stages]]
    return [int(number) for number in np.cumsum(counts)]


def phases(results: RunResults) -> dict[str, Floats]:
    """Return the wall seconds of each phase by stage, mean over seeds, (T,); `other` is the rest.

    `other` is what the whole stage took beyond its phases.
    """
    names = dict.fromkeys(
        name
        for seed in results.seeds.values()
        for stage in seed.stages
        for name in stage.seconds
        if name != "total"
    )
    found = {name: mean_by_stage(results, _phase(name)) for name in names}
    total = mean_by_stage(results, lambda stage: stage.wall_seconds)
    rest = np.maximum(total - sum(found.values(), np.zeros_like(total)), 0)
    return found | {"other": rest} if rest.sum() > 0.005 * total.sum() else found


def _phase(name: str) -> Callable[[StageMetrics], float]:
    return lambda stage: stage.seconds.get(name, 0.0)


def mean_by_stage(results: RunResults, take: Callable[[StageMetrics], float | None]) -> Floats:
    """Return a number by stage as the mean over seeds, (T,)."""
    mean: Floats = by_stage(results, take).mean(axis=0)
    return mean
