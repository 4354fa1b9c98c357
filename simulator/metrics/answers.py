"""What the models of all stages answered on the test set, and which stage brought each class."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.task_scores import TaskScores

Labels = NDArray[np.int64]
NO_ANSWER = -1


@dataclass(frozen=True)
class Answers:
    """Answers of one seed. Raises `MetricsError` when shapes or labels do not fit together."""

    labels: Labels
    """True labels of the N test samples, (N,); they index C classes."""
    predictions: NDArray[np.int32]
    """Predicted labels, (T, N); -1 where the class is not yet seen, or there is no answer."""
    stage_of_class: Labels
    """Number of the stage that brought each class, from 1, (C,); 0 for classes not used."""

    def __post_init__(self) -> None:
        _check_shapes(self)
        classes = len(self.stage_of_class)
        _check_range("labels", self.labels, 0, classes)
        _check_range("predictions", self.predictions, NO_ANSWER, classes)
        for stage in range(1, self.stages + 1):
            if not (self.stage_of_sample == stage).any():
                raise MetricsError(f"stage {stage}: no test sample of its classes; give some")

    @property
    def stages(self) -> int:
        """T, the number of stages that were answered."""
        return len(self.predictions)

    @property
    def stage_of_sample(self) -> Labels:
        """Number of the stage that brought each sample's class, (N,)."""
        return self.stage_of_class[self.labels]

    def asked(self, stage: int) -> NDArray[np.bool_]:
        """Return which samples the model of `stage` is asked about: all of classes seen by then."""
        task = self.stage_of_sample
        return (task >= 1) & (task <= stage)

    def seen(self, stage: int) -> Labels:
        """Return the labels of all classes seen by `stage`, ascending."""
        return np.flatnonzero((self.stage_of_class >= 1) & (self.stage_of_class <= stage))

    def answered(self, stage: int) -> tuple[Labels, Labels]:
        """Return true and predicted labels of the samples asked after `stage`."""
        asked = self.asked(stage)
        return self.labels[asked], self.predictions[stage - 1][asked].astype(np.int64)

    def task_scores(self) -> TaskScores:
        """Return right answers and questions by stage and task."""
        correct, total = np.zeros((2, self.stages, self.stages), np.int64)
        for stage in range(1, self.stages + 1):
            truth, predicted = self.answered(stage)
            task = self.stage_of_class[truth] - 1
            total[stage - 1] = np.bincount(task, minlength=self.stages)
            correct[stage - 1] = np.bincount(task[truth == predicted], minlength=self.stages)
        return TaskScores(correct, total)

    def save(self, path: Path) -> None:
        """Write as npz; `load` gives back the same."""
        with path.open("wb") as file:  # a path would get `.npz` added
            np.savez_compressed(
                file,
                labels=self.labels,
                predictions=self.predictions,
                stage_of_class=self.stage_of_class,
            )

    @classmethod
    def load(cls, path: Path) -> Answers:
        """Read what `save` wrote. Raises `MetricsError` when the file is missing or another."""
        try:
            with np.load(path) as held:
                return cls(
                    held["labels"].astype(np.int64),
                    held["predictions"].astype(np.int32),
                    held["stage_of_class"].astype(np.int64),
                )
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise MetricsError(f"{path}: no answers of a run: {error}; run it again") from error


def _check_shapes(answers: Answers) -> None:
    labels, predictions = answers.labels.shape, answers.predictions.shape
    if len(labels) != 1 or len(predictions) != 2 or predictions[1:] != labels:
        raise MetricsError(
            f"answers: labels {labels} and predictions {predictions}; give (N,) and (T, N)"
        )
    if answers.stage_of_class.ndim != 1:
        raise MetricsError(f"stage_of_class: {answers.stage_of_class.shape}; give (C,)")


def _check_range(name: str, values: NDArray[np.integer], low: int, high: int) -> None:
    if values.size and not low <= int(values.min()) <= int(values.max()) < high:
        raise MetricsError(
            f"{name}: {values.min()} to {values.max()}; give labels from {low} to {high - 1}"
        )
