"""How well a fleet learned class after class: accuracy per stage and task, forgetting, transfer.

Notation: a[t, i] is the accuracy on the test data of task i after stage t, among all classes seen
by then, for i <= t; both count from 0 here. Equation numbers are those of STSA (arXiv 2506.01327),
where no other source is named:

GEM   Lopez-Paz and Ranzato, Gradient Episodic Memory for Continual Learning, NeurIPS 2017
RWalk Chaudhry, Dokania, Ajanthan and Torr, Riemannian Walk for Incremental Learning, ECCV 2018
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

    A task whose stage brought nothing new, such as one in which classes return, has no questions.
    Raises `MetricsError` for other shapes, no questions at all, or more right than asked.
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
            asked = bool(self.total[task, task])
            if not 0 <= correct <= total or bool(total) != asked or not self.total[0, 0]:
                raise MetricsError(
                    f"scores: {correct} of {total} right for task {task} after stage {stage}; "
                    "give at least one question and no more right answers than questions"
                )

    @property
    def stages(self) -> int:
        """T, the number of stages."""
        return len(self.total)

    def accuracy(self) -> NDArray[np.float64]:
        """Return a as float64 (T, T), NaN above the diagonal and where nothing was asked."""
        a = np.full(self.total.shape, np.nan)
        asked = np.tril(self.total) > 0
        a[asked] = self.correct[asked] / self.total[asked]
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
        return float(np.nanmean(self.accuracy()[-1]))

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
    """Return F of earlier tasks, (stages up to now, earlier tasks), NaN before a task's first.

    RWalk's f takes the best over the stages before the last one, and is negative for a task that
    is best at the end; such a task counts 0 here.
    Tasks that were never asked about, all NaN, are left out; 0 where there are no others.
    """
    asked = a[:, ~np.isnan(a).all(axis=0)]
    return float((np.nanmax(asked, axis=0) - asked[-1]).mean()) if asked.size else 0.0


def backward_transfer(a: NDArray[np.float64]) -> float | None:
    """Return BWT of a (T, T), equation 3 of GEM; negative where tasks were forgotten.

        BWT = 1/(T - 1) sum_{i < T} a[T, i] - a[i, i]

    Tasks of which either is NaN are left out. None where none is left, as after one stage.
    """
    return _mean_known((a[-1] - np.diagonal(a))[:-1])


def forward_transfer(ahead: NDArray[np.float64], chance: NDArray[np.float64]) -> float | None:
    """Return FWT, equation 4 of GEM: how well a task is answered before its stage.

        FWT = 1/(T - 1) sum_{i > 1} a[i - 1, i] - b[i]

    `ahead` (T,) is a[i - 1, i], NaN where no model was asked; `chance` (T,) is b, the accuracy of
    who knows nothing. None where nothing is known.
    """
    return _mean_known((ahead - chance)[1:])


def intransigence(a: NDArray[np.float64], joint: NDArray[np.float64]) -> float | None:
    """Return the mean over stages of RWalk's I: what learning in stages costs a new task.

        I_k = a*[k, k] - a[k, k]

    `joint` (T, T) is a*, of a model that had the data of all stages so far. Lower is better, and
    negative is better than joint. Stages of which either is NaN are left out.
    """
    return _mean_known(np.diagonal(joint) - np.diagonal(a))


def jain_index(values: NDArray[np.float64]) -> float | None:
    """Return Jain's index of fairness: 1 where all values are equal, 1/K where one has everything.

        J = (sum_k x_k)^2 / (K sum_k x_k^2)

    Jain, Chiu and Hawe, DEC technical report 301, 1984. None where all are 0.
    """
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else None


def _mean_known(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
