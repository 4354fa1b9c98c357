"""How well a fleet learned class after class: accuracy per stage and task, forgetting.

Notation: a[t, i] is the accuracy on the test data of task i after stage t, among all classes seen
by then, for i <= t; both count from 0 here. Equation numbers are those of STSA (arXiv 2506.01327).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import MetricsError

Weighting = Literal["samples", "tasks"]


@dataclass(frozen=True)
class TaskScores:
    """Right answers and questions per stage and task; both int64 (T, T), lower triangles count.

    Raises `MetricsError` for other shapes, a task without questions, or more right than asked.
    """

    correct: NDArray[np.int64]
    total: NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = self.correct.shape
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1 or self.total.shape != shape:
            raise MetricsError(
                f"scores: correct {shape} and total {self.total.shape}; give two (T, T) arrays"
            )
        rows, columns = np.tril_indices(shape[0])
        for stage, task in zip(rows, columns, strict=True):
            correct, total = int(self.correct[stage, task]), int(self.total[stage, task])
            if total < 1 or not 0 <= correct <= total:
                raise MetricsError(
                    f"scores: {correct} of {total} right for task {task} after stage {stage}; "
                    "give at least one question and no more right answers than questions"
                )

    @property
    def stages(self) -> int:
        """T, the number of stages."""
        return len(self.total)

    def accuracy(self) -> NDArray[np.float64]:
        """Return a as float64 (T, T), NaN above the diagonal."""
        a = np.full(self.total.shape, np.nan)
        below = np.tril_indices(self.stages)
        a[below] = self.correct[below] / self.total[below]
        return a

    def accuracy_seen(self, weighting: Weighting = "samples") -> NDArray[np.float64]:
        """Return the accuracy on everything seen, after each stage, float64 (T,).

        `samples` asks every test sample once, as the released program does; `tasks` is A_t, the
        mean of a[t, i] over i <= t. They agree when all tasks have as many test samples.
        """
        if weighting == "tasks":
            by_tasks: NDArray[np.float64] = np.nanmean(self.accuracy(), axis=1)
            return by_tasks
        seen: NDArray[np.float64] = np.tril(self.correct).sum(1) / np.tril(self.total).sum(1)
        return seen

    def average_incremental_accuracy(self, weighting: Weighting = "samples") -> float:
        """Return the mean over stages of the accuracy on everything seen; equation (60)."""
        return float(self.accuracy_seen(weighting).mean())

    def final_average_accuracy(self) -> float:
        """Return A_T, the mean over tasks after the last stage; equation (59)."""
        return float(self.accuracy()[-1].mean())

    def forgetting(self, after: int | None = None) -> float:
        """Return F after the stage `after` (the last by default); equation (61).

        The mean over earlier tasks of the best accuracy that a task ever had minus the one it has
        now; 0 after the first stage, when nothing can have been forgotten. The best is taken over
        the stages up to and including `after`, so no term is negative.
        """
        last = self.stages - 1 if after is None else after
        if not 0 <= last < self.stages:
            raise MetricsError(f"after: {last}; give a stage from 0 to {self.stages - 1}")
        if last == 0:
            return 0.0
        return mean_forgetting(self.accuracy()[: last + 1, :last])


def mean_forgetting(a: NDArray[np.float64]) -> float:
    """Return F of earlier tasks, (stages up to now, earlier tasks), NaN before a task's first."""
    return float((np.nanmax(a, axis=0) - a[-1]).mean())
