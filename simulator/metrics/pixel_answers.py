"""What the models of all stages said of the pixels of the test scenes, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.samples import MOST_CLASSES, value_of
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.any_answers import (
    AnyAnswers,
    Counts,
    Floats,
    Learned,
    read_answers,
)
from fleetledger.simulator.metrics.segmentation import PixelCounts, SegmentationScores, score_stage
from fleetledger.simulator.metrics.task_scores import mean_forgetting

CONFUSION = "pixel_confusion"
"""The array by which a file of these answers is told apart from one of answers of samples."""


@dataclass(frozen=True)
class PixelAnswers(AnyAnswers):
    """Answers of pixels. Raises `MetricsError` when shapes or counts do not fit together.

    The scenes that are asked about after a stage, and what their masks show, follow from the test
    scenes and `stage_of_class`: all that show a class seen by then, with all such classes.
    """

    SCORE = "mIoU"
    ARRAYS: ClassVar[Mapping[str, Any]] = {CONFUSION: np.int64, "stage_of_class": np.int64}
    confusion: NDArray[np.int64]
    """Pixels by stage, true value and predicted value, (T, V, V); value 0 is background, a class
    of label l has value l + 1, and V is C + 1."""
    stage_of_class: NDArray[np.int64]
    """Number of the stage that brought each class, from 1, (C,); 0 for classes not used."""

    def __post_init__(self) -> None:
        classes = self.stage_of_class.shape
        if len(classes) != 1 or not 1 <= classes[0] <= MOST_CLASSES:
            raise MetricsError(f"stage_of_class: {classes}; give (C,) for 1 to {MOST_CLASSES}")
        values = (classes[0] + 1, classes[0] + 1)
        if self.confusion.ndim != 3 or self.confusion.shape[1:] != values:
            raise MetricsError(
                f"{CONFUSION}: {self.confusion.shape} for "
                f"{count_of(classes[0], 'class', 'classes')}; give (T, V, V) with "
                f"{count_of(values[0], 'value')}"
            )
        if self.confusion.size and self.confusion.min() < 0:
            raise MetricsError(f"{CONFUSION}: {self.confusion.min()}; counts are not negative")
        for stage in range(1, self.stages + 1):
            if np.isnan(self.scores(stage).all):
                raise MetricsError(
                    f"stage {stage}: not one pixel was asked about; give test scenes"
                )

    @classmethod
    def none(cls, stage_of_class: NDArray[np.int64]) -> PixelAnswers:
        """Return the answers of no stage."""
        values = len(stage_of_class) + 1
        return cls(np.empty((0, values, values), np.int64), stage_of_class)

    @classmethod
    def load(cls, path: Path) -> PixelAnswers:
        """Read what `save` wrote; raise `MetricsError` for another file."""
        return read_answers(path, cls.ARRAYS, cls)

    @property
    def stages(self) -> int:
        """T, the number of stages that were answered."""
        return len(self.confusion)

    def counts(self, stage: int) -> PixelCounts:
        """Return the confusion of pixels after `stage`."""
        return PixelCounts(self.confusion[stage - 1])

    def scores(self, stage: int) -> SegmentationScores:
        """Return the IoU after `stage`; raise `MetricsError` for pixels of a class of none."""
        tasks = [np.flatnonzero(self.stage_of_class == task) for task in range(1, stage + 1)]
        return score_stage(self.counts(stage), [[int(label) for label in task] for task in tasks])

    def task_confusion(self, stage: int) -> Counts:
        """Return pixels after `stage` by true and by predicted task, (1 + T, 1 + T).

        Background comes before the first task.
        """
        task_of_value = np.concatenate([[0], self.stage_of_class])
        counts = np.zeros((self.stages + 1, self.stages + 1), np.int64)
        rows, columns = np.nonzero(self.confusion[stage - 1])
        pixels = self.confusion[stage - 1][rows, columns]
        np.add.at(counts, (task_of_value[rows], task_of_value[columns]), pixels)
        return counts

    def first(self, stages: int) -> PixelAnswers:
        """Return the answers of the first so many stages."""
        return PixelAnswers(self.confusion[:stages], self.stage_of_class)

    def after(self, counts: PixelCounts) -> PixelAnswers:
        """Return the answers with those of one more stage."""
        confusion = np.concatenate([self.confusion, counts.matrix[np.newaxis]])
        return PixelAnswers(confusion, self.stage_of_class)

    def score(self, stage: int) -> float:
        """Return the mIoU over background and all classes seen by `stage`."""
        return self.scores(stage).all

    def learned(self, class_names: tuple[ClassName, ...]) -> tuple[Learned, ...]:
        """Return what was learned by the end of each stage; labels index `class_names`."""
        scores = [self.scores(stage) for stage in range(1, self.stages + 1)]
        matrix = np.full((len(scores), len(scores)), np.nan)
        for row, found in enumerate(scores):
            matrix[row, : row + 1] = found.tasks
        return tuple(
            self._learned(found, matrix[: row + 1, : row + 1], class_names)
            for row, found in enumerate(scores)
        )

    def _learned(
        self, scores: SegmentationScores, matrix: Floats, class_names: tuple[ClassName, ...]
    ) -> Learned:
        """Return the scores of a stage; `matrix` is the mIoU by stage and task up to this one."""
        iou = {ClassName(BACKGROUND): float(scores.iou[0])}
        for label in self.seen(len(matrix)):
            iou[class_names[label]] = float(scores.iou[value_of(int(label))])
        earlier = matrix[:, :-1]
        known = earlier[:, ~np.isnan(earlier[-1])]
        return Learned(
            accuracy=scores.all,
            accuracy_by_tasks=float(np.nanmean(matrix[-1])),
            old_accuracy=_known(scores.old),
            new_accuracy=_known(scores.new),
            forgetting=mean_forgetting(known) if known.size else 0.0,
            task_iou=tuple(_known(value) for value in scores.tasks),
            class_iou={name: value for name, value in iou.items() if not np.isnan(value)},
        )

    def class_accuracy(self, stage: int) -> None:
        """Return None: scenes hold many classes, so a device has no shares of them."""


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
