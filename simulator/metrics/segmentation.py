"""How well pixels are told apart: intersection over union (IoU), per class, task and stage.

Rows of the confusion matrix M are true values, columns predicted ones; value 0 is background,
pixels whose truth is 255 are left out. For value c

    IoU_c = M_cc / (sum_k M_ck + sum_k M_kc - M_cc)

A mean IoU (mIoU) is over the values that the ground truth has, background among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, IGNORED, value_of
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.confusion import count_pairs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PixelCounts:
    """A confusion matrix of pixels, int64 (V, V), for background and V - 1 classes; adds up."""

    matrix: NDArray[np.int64]

    @classmethod
    def none(cls, classes: int) -> PixelCounts:
        """Return the counts of no pixel."""
        return cls(np.zeros((classes + 1, classes + 1), np.int64))

    @classmethod
    def of(
        cls, truth: NDArray[np.uint8], predicted: NDArray[np.uint8], classes: int
    ) -> PixelCounts:
        """Return the counts of masks of one shape, with values 0 to `classes`; truth also 255.

        Raises `MetricsError` for another shape or value.
        """
        if truth.shape != predicted.shape:
            raise MetricsError(
                f"predicted: shape {predicted.shape} beside {truth.shape} of the truth; predict "
                "every pixel"
            )
        counted = truth != IGNORED
        rows, columns = truth[counted].astype(np.int64), predicted[counted].astype(np.int64)
        for name, values in (("truth", rows), ("predicted", columns)):
            if values.size and not 0 <= values.min() <= values.max() <= classes:
                raise MetricsError(
                    f"{name}: values from {values.min()} to {values.max()}; there are 0 to "
                    f"{classes}"
                )
        return cls(count_pairs(rows, columns, classes + 1))

    def __add__(self, other: PixelCounts) -> PixelCounts:
        if self.matrix.shape != other.matrix.shape:
            raise MetricsError(
                f"counts: {len(self.matrix)} and {count_of(len(other.matrix), 'value')}; add "
                "counts of the same classes"
            )
        return PixelCounts(self.matrix + other.matrix)

    def iou(self) -> Floats:
        """Return the IoU of every value, (V,); NaN where the truth has none of it."""
        right = np.diagonal(self.matrix)
        true, said = self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        found = np.full(len(right), np.nan)
        np.divide(right, true + said - right, out=found, where=true > 0)
        return found


@dataclass(frozen=True)
class SegmentationScores:
    """IoU after a stage, from 0 to 1; NaN where the ground truth has nothing of it."""

    iou: Floats
    """Of every value, (V,): background, then the classes by label."""
    all: float
    """mIoU over background and all classes seen so far."""
    old: float
    """mIoU over background and the classes of earlier tasks; NaN after the first."""
    new: float
    """mIoU over the classes of the newest task."""
    tasks: tuple[float, ...]
    """mIoU over the classes of each task so far, without background."""


def score_stage(counts: PixelCounts, tasks: Sequence[Sequence[int]]) -> SegmentationScores:
    """Return the scores after the newest of `tasks`, the labels of each task so far.

    Test masks must show the classes of all these tasks and no others. Raises `MetricsError` where
    there is no task, or where pixels are, or are said to be, of a class of none of them.
    """
    if not tasks:
        raise MetricsError("tasks: none; give the labels of every task so far")
    iou = counts.iou()
    seen = [BACKGROUND, *_values(label for labels in tasks for label in labels)]
    _check_seen(counts, seen)
    earlier = [BACKGROUND, *_values(label for labels in tasks[:-1] for label in labels)]
    return SegmentationScores(
        iou=iou,
        all=_mean(iou[seen]),
        old=_mean(iou[earlier]) if len(tasks) > 1 else float("nan"),
        new=_mean(iou[_values(tasks[-1])]),
        tasks=tuple(_mean(iou[_values(labels)]) for labels in tasks),
    )


def _values(labels: Iterable[int]) -> list[int]:
    return [value_of(label) for label in labels]


def _check_seen(counts: PixelCounts, seen: Sequence[int]) -> None:
    unseen = np.setdiff1d(np.arange(len(counts.matrix)), seen)
    met = unseen[counts.matrix[unseen].any(axis=1) | counts.matrix[:, unseen].any(axis=0)]
    if met.size:
        raise MetricsError(
            f"counts: pixels of value {met[0]}, which is of no task so far; show and predict only "
            "classes seen so far"
        )


def _mean(values: Floats) -> float:
    """Return the mean of what is there; NaN where nothing is."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if there.size else float("nan")
