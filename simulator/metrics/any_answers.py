"""Answers of the models of one seed: the class of each test sample, or of each pixel of scenes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.npz_files import read_npz
from fleetledger.simulator.metrics.score import Score

Labels = NDArray[np.int64]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Made = TypeVar("Made")
MOST_BYTES = 1 << 30
"""Of the arrays in a file of answers."""


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


class AnyAnswers(ABC):
    """Answers of one seed, in one file of a run's folder."""

    SCORE: ClassVar[Score]
    ARRAYS: ClassVar[Mapping[str, Any]]
    """Names and types of the arrays in the file, in the order of the fields."""
    stage_of_class: Labels
    """Number of the stage that brought each class, from 1, (C,); 0 for classes not used."""

    @property
    @abstractmethod
    def stages(self) -> int:
        """T, the number of stages that were answered."""

    @abstractmethod
    def first(self, stages: int) -> Self:
        """Return the answers of the first so many stages."""

    @abstractmethod
    def score(self, stage: int) -> float:
        """Return the score after `stage`, from 0 to 1."""

    @abstractmethod
    def learned(self, class_names: tuple[ClassName, ...]) -> tuple[Learned, ...]:
        """Return what was learned by the end of each stage; labels index `class_names`."""

    @abstractmethod
    def task_confusion(self, stage: int) -> Counts:
        """Return counts after `stage`: the true class's stage against the predicted one's."""

    @abstractmethod
    def class_accuracy(self, stage: int) -> Floats | None:
        """Return the share of right answers by label after `stage`, (C,); NaN where none was asked.

        None of scenes: they hold many classes, so a device has no shares of them.
        """

    def seen(self, stage: int) -> Labels:
        """Return the labels of all classes seen by `stage`, ascending."""
        return np.flatnonzero((self.stage_of_class >= 1) & (self.stage_of_class <= stage))

    def save(self, path: Path) -> None:
        """Write as npz; `load` of the same class gives back the same."""
        with path.open("wb") as file:  # a path would get `.npz` added
            np.savez_compressed(file, **dict(zip(self.ARRAYS, vars(self).values(), strict=True)))


def read_answers(path: Path, arrays: Mapping[str, Any], make: Callable[..., Made]) -> Made:
    """Return what `make` makes of the arrays in a file, given with their types.

    Raises `MetricsError` when the file is missing or another.
    """
    held = read_npz(path, tuple(arrays), MOST_BYTES)
    for name, array in held.items():
        if array.dtype != arrays[name]:
            wanted = np.dtype(arrays[name])
            raise MetricsError(f"{path}: {name} is {array.dtype}, not {wanted}; run it again")
    try:
        return make(*held.values())
    except MetricsError as error:
        raise MetricsError(f"{path}: {error}; run it again") from error
