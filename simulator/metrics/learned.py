"""What the fleet had learned by the end of each stage, of answers of samples and of pixels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.samples import value_of
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.recall_and_f1 import (
    batchwise_f1,
    batchwise_recall,
    macro_f1,
    macro_recall,
)
from fleetledger.simulator.metrics.segmentation import Floats, SegmentationScores
from fleetledger.simulator.metrics.task_scores import TaskScores, mean_forgetting


@dataclass(frozen=True)
class Learned:
    """Fields of `StageMetrics` that follow from the answers alone; those without sense stay out."""

    accuracy: float
    accuracy_by_tasks: float
    old_accuracy: float | None
    new_accuracy: float | None
    forgetting: float
    recall: float | None = None
    f1: float | None = None
    recall_batchwise128: float | None = None
    f1_batchwise128: float | None = None
    task_correct: tuple[int, ...] = ()
    task_total: tuple[int, ...] = ()
    task_iou: tuple[float | None, ...] = ()
    class_iou: dict[ClassName, float] = field(default_factory=dict)


def learned_by_stage(
    answers: AnyAnswers, class_names: tuple[ClassName, ...]
) -> tuple[Learned, ...]:
    """Return what was learned by the end of each stage; labels index `class_names`."""
    if isinstance(answers, PixelAnswers):
        scores = [answers.scores(stage) for stage in range(1, answers.stages + 1)]
        matrix = _by_task(scores)
        return tuple(
            _of_pixels(answers, found, matrix[: row + 1, : row + 1], class_names)
            for row, found in enumerate(scores)
        )
    task_scores = answers.task_scores()
    return tuple(_of_samples(answers, task_scores, row) for row in range(answers.stages))


def _of_samples(answers: Answers, scores: TaskScores, row: int) -> Learned:
    correct, total = scores.correct[row, : row + 1], scores.total[row, : row + 1]
    truth, predicted = answers.answered(row + 1)
    classes = answers.seen(row + 1)
    return Learned(
        accuracy=float(scores.accuracy_seen()[row]),
        accuracy_by_tasks=float(scores.accuracy_seen("tasks")[row]),
        old_accuracy=float(correct[:-1].sum() / total[:-1].sum()) if row else None,
        new_accuracy=float(correct[-1] / total[-1]),
        forgetting=scores.forgetting(after=row),
        recall=macro_recall(truth, predicted),
        f1=macro_f1(truth, predicted),
        recall_batchwise128=batchwise_recall(truth, predicted, classes),
        f1_batchwise128=batchwise_f1(truth, predicted, classes),
        task_correct=tuple(int(value) for value in correct),
        task_total=tuple(int(value) for value in total),
    )


def _of_pixels(
    answers: PixelAnswers,
    scores: SegmentationScores,
    matrix: Floats,
    class_names: tuple[ClassName, ...],
) -> Learned:
    """Return the scores of a stage; `matrix` is the mIoU by stage and task up to this one."""
    iou = {ClassName(BACKGROUND): float(scores.iou[0])}
    for label in answers.seen(len(matrix)):
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


def _by_task(scores: list[SegmentationScores]) -> Floats:
    """Return the mIoU of every task after every stage, (T, T), NaN above the diagonal."""
    matrix = np.full((len(scores), len(scores)), np.nan)
    for row, found in enumerate(scores):
        matrix[row, : row + 1] = found.tasks
    return matrix


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
