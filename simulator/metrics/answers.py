"""What the models of all stages answered on the test set, and which stage brought each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.any_answers import (
    AnyAnswers,
    Counts,
    Floats,
    Labels,
    Learned,
    read_answers,
)
from fleetledger.simulator.metrics.confusion import count_pairs
from fleetledger.simulator.metrics.recall_and_f1 import (
    batchwise_f1,
    batchwise_recall,
    macro_f1,
    macro_recall,
)
from fleetledger.simulator.metrics.task_scores import TaskScores

NO_ANSWER = -1


@dataclass(frozen=True)
class Answers(AnyAnswers):
    """Answers of samples. Raises `MetricsError` when shapes or labels do not fit together."""

    SCORE = "accuracy"
    ARRAYS: ClassVar[Mapping[str, Any]] = {
        "labels": np.int64,
        "predictions": np.int32,
        "stage_of_class": np.int64,
        "first_stage": np.int64,
    }
    labels: Labels
    """True labels of the N test samples, (N,); they index C classes."""
    predictions: NDArray[np.int32]
    """Predicted labels, (T, N); -1 where the class is not yet seen, or there is no answer."""
    stage_of_class: Labels
    """Number of the stage that brought each class, from 1, (C,); 0 for classes not used."""
    first_stage: Labels = field(default_factory=lambda: np.empty(0, np.int64))
    """Number of the stage that brought the like of each sample, (N,), where that is not its class
    alone but its class in a domain; else empty."""

    def __post_init__(self) -> None:
        _check_shapes(self)
        classes = len(self.stage_of_class)
        _check_range("labels", self.labels, 0, classes)
        _check_range("predictions", self.predictions, NO_ANSWER, classes)
        for stage in range(1, self.stages + 1):
            brings = (self.stage_of_class == stage).any()
            if brings and not (self.stage_of_sample == stage).any():
                raise MetricsError(f"stage {stage}: no test sample of its classes; give some")

    @classmethod
    def load(cls, path: Path) -> Answers:
        """Read what `save` wrote; raise `MetricsError` for another file."""
        return read_answers(path, cls.ARRAYS, cls)

    @property
    def stages(self) -> int:
        """T, the number of stages that were answered."""
        return len(self.predictions)

    def first(self, stages: int) -> Answers:
        """Return the answers of the first so many stages."""
        return replace(self, predictions=self.predictions[:stages])

    @property
    def stage_of_sample(self) -> Labels:
        """Number of the stage that brought the like of each sample, (N,): its task."""
        return self.first_stage if len(self.first_stage) else self.stage_of_class[self.labels]

    def asked(self, stage: int) -> NDArray[np.bool_]:
        """Return which samples the model of `stage` is asked about: all of classes seen by then."""
        task = self.stage_of_sample
        return (task >= 1) & (task <= stage)

    def answered(self, stage: int) -> tuple[Labels, Labels]:
        """Return true and predicted labels of the samples asked after `stage`."""
        asked = self.asked(stage)
        return self.labels[asked], self.predictions[stage - 1][asked].astype(np.int64)

    def task_scores(self) -> TaskScores:
        """Return right answers and questions by stage and task."""
        correct, total = np.zeros((2, self.stages, self.stages), np.int64)
        for stage in range(1, self.stages + 1):
            truth, predicted = self.answered(stage)
            task = self.stage_of_sample[self.asked(stage)] - 1
            total[stage - 1] = np.bincount(task, minlength=self.stages)
            correct[stage - 1] = np.bincount(task[truth == predicted], minlength=self.stages)
        return TaskScores(correct, total)

    def score(self, stage: int) -> float:
        """Return the share of right answers after `stage`."""
        truth, predicted = self.answered(stage)
        return float((truth == predicted).mean())

    def learned(self, class_names: tuple[ClassName, ...]) -> tuple[Learned, ...]:
        """Return what was learned by the end of each stage."""
        scores = self.task_scores()
        return tuple(self._learned(scores, row) for row in range(self.stages))

    def _learned(self, scores: TaskScores, row: int) -> Learned:
        correct, total = scores.correct[row, : row + 1], scores.total[row, : row + 1]
        truth, predicted = self.answered(row + 1)
        classes = self.seen(row + 1)
        return Learned(
            accuracy=float(scores.accuracy_seen()[row]),
            accuracy_by_tasks=float(scores.accuracy_seen("tasks")[row]),
            old_accuracy=_share(correct[:-1].sum(), total[:-1].sum()),
            new_accuracy=_share(correct[-1], total[-1]),
            forgetting=scores.forgetting(after=row),
            recall=macro_recall(truth, predicted),
            f1=macro_f1(truth, predicted),
            recall_batchwise128=batchwise_recall(truth, predicted, classes),
            f1_batchwise128=batchwise_f1(truth, predicted, classes),
            task_correct=tuple(int(value) for value in correct),
            task_total=tuple(int(value) for value in total),
        )

    def task_confusion(self, stage: int) -> Counts:
        """Return counts after `stage`, (T, T): each sample's task against the predicted class's.

        Answers right about the task may still be wrong about the class. A sample without an answer
        is in no column.
        """
        asked = self.asked(stage)
        predicted, task = self.predictions[stage - 1][asked], self.stage_of_sample[asked]
        given = predicted >= 0
        taken = self.stage_of_class[predicted[given]]
        return count_pairs(task[given] - 1, taken - 1, self.stages)

    def ahead(self) -> tuple[Floats, Floats]:
        """Return accuracy on each task by the model of the stage before, and by chance; (T,) each.

        NaN where that model was asked nothing: of classes without a row in its head, which is every
        task of a plan in which classes come once. Chance names one of the classes seen by then.
        """
        accuracy, chance = np.full((2, self.stages), np.nan)
        for stage in range(2, self.stages + 1):
            of_task = self.stage_of_sample == stage
            given = self.predictions[stage - 2][of_task]
            if (given >= 0).any():
                accuracy[stage - 1] = (given == self.labels[of_task]).mean()
                chance[stage - 1] = 1 / len(self.seen(stage - 1))
        return accuracy, chance

    def class_accuracy(self, stage: int) -> Floats:
        """Return the share of right answers by label after `stage`."""
        truth, predicted = self.answered(stage)
        classes = len(self.stage_of_class)
        right = np.bincount(truth[truth == predicted], minlength=classes).astype(np.float64)
        asked = np.bincount(truth, minlength=classes)
        accuracy = np.full(classes, np.nan)
        np.divide(right, asked, out=accuracy, where=asked > 0)
        return accuracy


def _share(right: int, asked: int) -> float | None:
    return float(right / asked) if asked else None


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
