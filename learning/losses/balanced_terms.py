"""LGA's terms as values to compose, and GLFC's; see `learning.losses.gradient_balance`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.binary import binary_cross_entropy, one_hot_with_old
from fleetledger.learning.losses.composition import Lesson, Step
from fleetledger.learning.losses.cross_entropy import sample_cross_entropy
from fleetledger.learning.losses.gradient_balance import (
    Activation,
    balancing_weights,
    gradient_magnitudes,
    semantic_divergence,
    soft_targets,
)
from fleetledger.learning.losses.reduction import weighted_mean
from fleetledger.learning.losses.terms import weight_of


@dataclass(frozen=True)
class GradientBalance:
    """How samples are weighed: by groups of classes, an exponent, and bounds for the weight."""

    groups: str = "groups"
    exponent: str = "exponent"
    activation: Activation = "softmax"
    bounds: tuple[float, float] | None = None

    def __call__(self, step: Step) -> Tensor:
        """Return the same as `weights`, for `Step.once`."""
        return self.weights(step)

    def weights(self, step: Step) -> Tensor:
        """Return w (..., n), without gradient."""
        batch = step.batch
        weights = balancing_weights(
            gradient_magnitudes(step.outputs.logits, batch.targets, self.activation),
            batch.targets,
            weight_of(step, None),
            step.frozen[self.groups],
            step.frozen[self.exponent],
        )
        return weights if self.bounds is None else weights.clamp(*self.bounds)


@dataclass(frozen=True)
class BalancedCrossEntropy:
    """L_CB, equation (5): softmax cross-entropy over all classes, weighed by `balance`."""

    balance: GradientBalance

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        losses = sample_cross_entropy(step.outputs.logits, step.batch.targets)
        return weighted_mean(step.once(self.balance) * losses, weight_of(step, None))


@dataclass(frozen=True)
class SemanticDistillation:
    """L_SD, equation (6), from the model `teacher`; `slices` names masks of the tasks' classes."""

    teacher: str
    balance: GradientBalance | None = None
    slices: str | None = None
    lesson: ClassVar[Lesson] = "logits"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        logits, old = step.outputs.logits, step.taught(self.teacher, self.lesson)
        labels = soft_targets(step.batch.targets, logits.shape[-1], old)
        divergences = semantic_divergence(logits, labels, step.mask(self.slices))
        if self.balance is not None:
            divergences = step.once(self.balance) * divergences
        return weighted_mean(divergences, weight_of(step, None))


@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Mean over samples and classes of w_i BCE(z_ic, Y_ic), as the released programs train.

    Y is one-hot, or, with a `teacher`, has its sigmoids in its columns.
    """

    balance: GradientBalance | None = None
    teacher: str | None = None
    lesson: ClassVar[Lesson] = "logits"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        logits, batch = step.outputs.logits, step.batch
        old = None if self.teacher is None else step.taught(self.teacher, self.lesson)
        labels = one_hot_with_old(batch.targets, logits.shape[-1], old).to(logits.dtype)
        factor = None if self.balance is None else step.once(self.balance)
        return binary_cross_entropy(logits, labels, weight_of(step, None), factor)


@dataclass(frozen=True)
class OldClassDistillation:
    """iCaRL's distillation: BCE of the old classes' outputs alone against the teacher's sigmoids.

    Mean over samples and old classes (Rebuffi et al., CVPR 2017); the ablation w/oSDL. `rows` names
    samples' extras (0 or 1) that say on which samples.
    """

    teacher: str
    rows: str | None = None
    lesson: ClassVar[Lesson] = "logits"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        old = step.taught(self.teacher, self.lesson).detach()
        known = step.outputs.logits[..., : old.shape[-1]]
        return binary_cross_entropy(known, functional.sigmoid(old), weight_of(step, self.rows))
