"""What the models of all stages said of the pixels of the test scenes, counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.datasets.segmentation.samples import MOST_CLASSES
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.npz_files import read_npz
from fleetledger.simulator.metrics.segmentation import PixelCounts, SegmentationScores, score_stage

CONFUSION = "pixel_confusion"
"""The array by which a file of these answers is told apart from one of answers of samples."""
_STAGE_OF_CLASS = "stage_of_class"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class PixelAnswers:
    """Answers of one seed. Raises `MetricsError` when shapes or counts do not fit together.

    The scenes that are asked about after a stage, and what their masks show, follow from the test
    scenes and `stage_of_class`: all that show a class seen by then, with all such classes.
    """

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

    @property
    def stages(self) -> int:
        """T, the number of stages that were answered."""
        return len(self.confusion)

    def seen(self, stage: int) -> NDArray[np.int64]:
        """Return the labels of all classes seen by `stage`, ascending."""
        return np.flatnonzero((self.stage_of_class >= 1) & (self.stage_of_class <= stage))

    def counts(self, stage: int) -> PixelCounts:
        """Return the confusion of pixels after `stage`."""
        return PixelCounts(self.confusion[stage - 1])

    def scores(self, stage: int) -> SegmentationScores:
        """Return the IoU after `stage`; raise `MetricsError` for pixels of a class of none."""
        tasks = [np.flatnonzero(self.stage_of_class == task) for task in range(1, stage + 1)]
        return score_stage(self.counts(stage), [[int(label) for label in task] for task in tasks])

    def task_confusion(self) -> NDArray[np.int64]:
        """Return pixels after the last stage by true and by predicted task, (1 + T, 1 + T).

        Background comes before the first task.
        """
        task_of_value = np.concatenate([[0], self.stage_of_class])
        counts = np.zeros((self.stages + 1, self.stages + 1), np.int64)
        rows, columns = np.nonzero(self.confusion[-1])
        pixels = self.confusion[-1][rows, columns]
        np.add.at(counts, (task_of_value[rows], task_of_value[columns]), pixels)
        return counts

    def first(self, stages: int) -> PixelAnswers:
        """Return the answers of the first so many stages."""
        return PixelAnswers(self.confusion[:stages], self.stage_of_class)

    def after(self, counts: PixelCounts) -> PixelAnswers:
        """Return the answers with those of one more stage."""
        confusion = np.concatenate([self.confusion, counts.matrix[np.newaxis]])
        return PixelAnswers(confusion, self.stage_of_class)

    def save(self, path: Path) -> None:
        """Write as npz; `load` gives back the same."""
        with path.open("wb") as file:  # a path would get `.npz` added
            np.savez_compressed(
                file, pixel_confusion=self.confusion, stage_of_class=self.stage_of_class
            )

    @classmethod
    def load(cls, path: Path) -> PixelAnswers:
        """Read what `save` wrote. Raises `MetricsError` when the file is missing or another."""
        held = read_npz(path, (CONFUSION, _STAGE_OF_CLASS), _MOST_BYTES)
        for name, array in held.items():
            if array.dtype != np.int64:
                raise MetricsError(f"{path}: {name} is {array.dtype}, not int64; run it again")
        try:
            return cls(held[CONFUSION], held[_STAGE_OF_CLASS])
        except MetricsError as error:
            raise MetricsError(f"{path}: {error}; run it again") from error
