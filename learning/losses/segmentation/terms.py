"""Terms over pixels as values to compose; each names the parts that it needs (`parts`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fleetledger.learning.losses.segmentation.dense_distillation import (
    encoder_distance,
    pixel_distillation,
    unbiased_cross_entropy,
    unbiased_distillation,
)
from fleetledger.learning.losses.segmentation.local_pod import PodFactors, folded, local_pod
from fleetledger.learning.losses.segmentation.parts import (
    BalancedMagnitudes,
    GivenLabels,
    Labels,
    ReleasedWeights,
    Weights,
)
from fleetledger.learning.losses.segmentation.pixels import counted_mean, pixel_cross_entropy
from fleetledger.learning.losses.segmentation.pooled_cubes import pooled_cubes
from fleetledger.learning.losses.segmentation.relation_consistency import relation_consistency
from fleetledger.learning.losses.segmentation.released import (
    class_confidence,
    output_entropy,
    released_cross_entropy,
    soft_label_loss,
)
from fleetledger.learning.losses.segmentation.step import PixelStep


@dataclass(frozen=True)
class PixelCrossEntropy:
    """Mean over pixels that count of f w CE: FBL (1), its (6) with weights, PLOP's with factors.

    f is the image's factor, as the labels give it. FBL's released program divides by the number of
    all pixels, ignored ones too.
    """

    labels: Labels = GivenLabels()  # noqa: RUF009 -- frozen
    weights: Weights | None = None
    over: Literal["counted", "all"] = "counted"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        labels, factors = step.once(self.labels)
        losses = factors[:, None, None] * pixel_cross_entropy(step.outputs.logits, labels)
        if self.weights is not None:
            losses = step.once(self.weights) * losses
        return losses.mean() if self.over == "all" else counted_mean(losses, labels)


@dataclass(frozen=True)
class RelationConsistency:
    """L_FR, FBL (9)."""

    magnitudes: BalancedMagnitudes = BalancedMagnitudes()  # noqa: RUF009 -- frozen
    old: str = "old"
    tasks: str = "tasks"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        return relation_consistency(
            step.outputs.logits,
            step.teacher(self.old).logits,
            step.once(self.magnitudes.labels).labels,
            step.once(self.magnitudes),
            step.frozen[self.tasks],
        )


@dataclass(frozen=True)
class LocalPod:
    """L_POD over all maps and the small logits."""

    old: str = "old"
    factors: PodFactors = PodFactors()  # noqa: RUF009 -- frozen

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        maps, small, new = _beside_the_old(step, self.old)
        factors = [self.factors.maps] * len(maps) + [self.factors.logits]
        return local_pod([*maps, small], factors, new, step.channels)


@dataclass(frozen=True)
class PooledCubes:
    """RCIL's distillation of windows and of neighbouring channels."""

    old: str = "old"
    factors: PodFactors = PodFactors()  # noqa: RUF009 -- frozen

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        maps, small, new = _beside_the_old(step, self.old)
        return pooled_cubes(maps, small, self.factors, new, step.channels)


@dataclass(frozen=True)
class ReleasedCrossEntropy:
    """The first term of FBL's released program."""

    weights: ReleasedWeights = ReleasedWeights()  # noqa: RUF009 -- frozen

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        labels, factors = step.once(self.weights.labels)
        weights = step.once(self.weights)
        return released_cross_entropy(step.outputs.logits, labels, weights, factors)


@dataclass(frozen=True)
class SoftLabels:
    """The released program's cross-entropy under soft labels."""

    labels: Labels
    old: str = "old"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        labels = step.once(self.labels).labels
        return soft_label_loss(step.outputs.logits, step.teacher(self.old).logits, labels)


@dataclass(frozen=True)
class OutputEntropy:
    """The released program's entropy of what the model says."""

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        return output_entropy(step.outputs.logits)


@dataclass(frozen=True)
class ClassConfidence:
    """The released program's difference of classes' mean confidence."""

    weights: ReleasedWeights = ReleasedWeights()  # noqa: RUF009 -- frozen
    old: str = "old"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        labels, weights = step.once(self.weights.labels).labels, step.once(self.weights)
        old = step.teacher(self.old).logits
        return class_confidence(step.outputs.logits, old, labels, weights)


@dataclass(frozen=True)
class PixelDistillation:
    """LwF's distillation over the old channels."""

    old: str = "old"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        old = step.teacher(self.old).logits
        return pixel_distillation(step.outputs.logits, old, step.labels)


@dataclass(frozen=True)
class EncoderDistance:
    """ILT's distance of features; `place` is the encoder's output among the maps."""

    old: str = "old"
    place: int = -2

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        old = step.teacher(self.old).maps[self.place]
        return encoder_distance(step.outputs.maps[self.place], old)


@dataclass(frozen=True)
class UnbiasedCrossEntropy:
    """MiB's cross-entropy: background may be any old class."""

    old: str = "old"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        old_channels = step.teacher(self.old).logits.shape[1]
        return unbiased_cross_entropy(step.outputs.logits, step.labels, old_channels)


@dataclass(frozen=True)
class UnbiasedDistillation:
    """MiB's distillation: the old model's background may be any new class."""

    old: str = "old"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return its value ()."""
        old = step.teacher(self.old).logits
        return unbiased_distillation(step.outputs.logits, old, step.labels)


def _beside_the_old(
    step: PixelStep, name: str
) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor], int]:
    """Return maps and small logits of both models, and the number of new channels.

    The student's new channels are folded into its background, so that logits have equal shapes.
    """
    now, old = step.outputs, step.teacher(name)
    old_channels = old.logits.shape[1]
    maps = list(zip(now.maps, old.maps, strict=True))
    small = folded(now.small_logits, old_channels), old.small_logits
    return maps, small, step.channels - old_channels
