"""Who is taken for whom: between classes, and between the tasks that brought them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.metrics.answers import Answers

Counts = NDArray[np.int64]


def task_confusion(answers: Answers, stage: int) -> Counts:
    """Return counts after `stage`, (T, T): the true class's stage against the predicted one's.

    Answers right about the task may still be wrong about the class. A sample without an answer is
    in no column.
    """
    truth, predicted = answers.answered(stage)
    task = answers.stage_of_class
    given = predicted >= 0
    return count_pairs(task[truth[given]] - 1, task[predicted[given]] - 1, answers.stages)


def class_accuracy(answers: Answers, stage: int) -> NDArray[np.float64]:
    """Return the share of right answers by label after `stage`, (C,); NaN where none was asked."""
    truth, predicted = answers.answered(stage)
    classes = len(answers.stage_of_class)
    right = np.bincount(truth[truth == predicted], minlength=classes).astype(np.float64)
    asked = np.bincount(truth, minlength=classes)
    accuracy = np.full(classes, np.nan)
    np.divide(right, asked, out=accuracy, where=asked > 0)
    return accuracy


def count_pairs(rows: Counts, columns: Counts, size: int) -> Counts:
    """Return how often each pair occurs, (size, size); one whose column is no class is left out."""
    inside = (columns >= 0) & (columns < size)
    pairs = rows[inside] * size + columns[inside]
    return np.bincount(pairs, minlength=size * size).reshape(size, size).astype(np.int64)
