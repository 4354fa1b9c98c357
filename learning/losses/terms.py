"""The terms as values to compose: each names the frozen parts that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fleetledger.learning.losses.balance import feature_balance
from fleetledger.learning.losses.composition import Lesson, Step
from fleetledger.learning.losses.cross_entropy import cross_entropy, cross_entropy_within_tasks
from fleetledger.learning.losses.distillation import Direction, distillation, divergence
from fleetledger.learning.losses.ewc import ewc_penalty
from fleetledger.learning.losses.features import feature_angle, feature_distance
from fleetledger.learning.losses.fedmax import FedMaxDirection, FedMaxReduction, fedmax
from fleetledger.learning.losses.proximal import proximal
from fleetledger.learning.losses.reduction import Weight


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy over the classes of the mask `scope`, or over all.

    `rows` names samples' extras (0 or 1) that say on which samples, `prior` what is added to the
    scores of classes, and `tasks`, instead of a mask, the task of each class: then a sample is
    compared with the classes of its own.
    """

    scope: str | None = None
    rows: str | None = None
    prior: str | None = None
    tasks: str | None = None

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        logits, targets, weight = (
            step.outputs.logits,
            step.batch.targets,
            weight_of(step, self.rows),
        )
        prior = None if self.prior is None else step.frozen[self.prior]
        if self.tasks is not None:
            tasks = step.frozen[self.tasks]
            return cross_entropy_within_tasks(logits, targets, weight, tasks, prior)
        return cross_entropy(logits, targets, weight, step.mask(self.scope), prior)


@dataclass(frozen=True)
class Distillation:
    """Distillation from the model `teacher` on the classes of the mask `classes`, or on all.

    `rows` names samples' extras (0 or 1) that say on which samples, exemplars for instance.
    """

    teacher: str
    temperature: float = 2.0
    classes: str | None = None
    rows: str | None = None
    lesson: ClassVar[Lesson] = "logits"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return distillation(
            step.outputs.logits,
            step.taught(self.teacher, self.lesson),
            weight_of(step, self.rows),
            self.temperature,
            step.mask(self.classes),
        )


@dataclass(frozen=True)
class Divergence:
    """The Kullback-Leibler divergence between model and `teacher`."""

    teacher: str
    temperature: float = 1.0
    classes: str | None = None
    rows: str | None = None
    direction: Direction = "teacher_first"
    lesson: ClassVar[Lesson] = "logits"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return divergence(
            step.outputs.logits,
            step.taught(self.teacher, self.lesson),
            weight_of(step, self.rows),
            self.temperature,
            step.mask(self.classes),
            direction=self.direction,
        )


@dataclass(frozen=True)
class FeatureDistance:
    """The squared distance of features from those of `teacher`, as FedHAF."""

    teacher: str
    rows: str | None = None
    reduction: Literal["mean", "sum"] = "mean"
    lesson: ClassVar[Lesson] = "features"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        old = step.taught(self.teacher, self.lesson)
        return feature_distance(
            step.outputs.features, old, weight_of(step, self.rows), self.reduction
        )


@dataclass(frozen=True)
class FeatureAngle:
    """One minus the cosine between features and those of `teacher`, as LUCIR."""

    teacher: str
    rows: str | None = None
    lesson: ClassVar[Lesson] = "features"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        old = step.taught(self.teacher, self.lesson)
        return feature_angle(step.outputs.features, old, weight_of(step, self.rows))


@dataclass(frozen=True)
class FeatureBalance:
    """The difference between the lengths of new and old classes' features, as FedHAF.

    `new` names the mask of the classes that are new.
    """

    new: str
    rows: str | None = None

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return feature_balance(
            step.outputs.features,
            step.batch.targets,
            counted(step, self.rows),
            step.frozen[self.new],
        )


@dataclass(frozen=True)
class Proximal:
    """Half the squared distance from the tensors `anchor`, as FedProx."""

    anchor: str
    reduction: Literal["sum", "tensor_mean"] = "sum"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        anchor = step.frozen[self.anchor]
        return proximal(step.parameters, anchor, self.reduction, stacked=step.stacked)


@dataclass(frozen=True)
class FedMax:
    """The divergence of the inputs of the last layer, behind a hidden one too, from uniform."""

    direction: FedMaxDirection = "uniform_first"
    reduction: FedMaxReduction = "mean"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return fedmax(step.outputs.row_inputs, step.batch.weight, self.direction, self.reduction)


@dataclass(frozen=True)
class EwcPenalty:
    """Half the distance from `anchor`, weighted by `fisher`, as Fed-EWC."""

    anchor: str
    fisher: str

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        anchor, fisher = step.frozen[self.anchor], step.frozen[self.fisher]
        return ewc_penalty(step.parameters, anchor, fisher, stacked=step.stacked)


def counted(step: Step, rows: str | None) -> Tensor:
    """Return the weight (..., n) of the batch's rows, only those that the extra `rows` marks."""
    weight = weight_of(step, rows)
    return step.batch.weight if weight is None else weight


def weight_of(step: Step, rows: str | None) -> Weight:
    """Return the same; None where all rows of the batch count."""
    batch = step.batch
    if rows is None:
        return None if batch.all_count else batch.weight
    marks = batch.extras[rows]
    return marks.to(batch.weight.dtype) if batch.all_count else batch.weight * marks
