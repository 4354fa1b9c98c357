"""Parts that terms share, as values: which labels pixels get, and what pixels weigh.

Names are those of the work's parts: the model `old`, {"parameters", "buffers"}, the number of each
channel's task `tasks` (C,) with 0 for background, and the scalar `exponent` are frozen; the
`thresholds` (C_old,) come from a pass before each epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from fleetledger.learning.losses.segmentation.forgetting_balance import (
    balanced_magnitudes,
    balancing_weights,
    gradient_magnitudes,
)
from fleetledger.learning.losses.segmentation.pseudo_labels import (
    Unsure,
    adaptive_labels,
    median_labels,
    probable_labels,
    released_labels,
)
from fleetledger.learning.losses.segmentation.released import released_magnitudes, released_weights
from fleetledger.learning.losses.segmentation.step import PixelStep


class Labelled(NamedTuple):
    """Labels for a batch, and how much each image's loss counts."""

    labels: Tensor
    """(B, h, w)."""
    factors: Tensor
    """(B,)."""


@dataclass(frozen=True)
class GivenLabels:
    """What the masks show: all but the task's classes is background."""

    def __call__(self, step: PixelStep) -> Labelled:
        """Return the labels."""
        return _all_count(step.labels, step)


@dataclass(frozen=True)
class AdaptiveLabels:
    """FBL (2): the old model's guess where the current one's entropy is below the class's."""

    old: str = "old"
    thresholds: str = "thresholds"
    unsure: Unsure = "background"

    def __call__(self, step: PixelStep) -> Labelled:
        """Return the labels."""
        logits, old = step.outputs.logits, step.teacher(self.old).logits
        thresholds = step.extras[self.thresholds]
        return _all_count(adaptive_labels(logits, old, step.labels, thresholds, self.unsure), step)


@dataclass(frozen=True)
class ProbableLabels:
    """FBL's ablation w/oAPL: one probability for all old classes."""

    old: str = "old"
    probability: float = 0.7
    unsure: Unsure = "background"

    def __call__(self, step: PixelStep) -> Labelled:
        """Return the labels."""
        old = step.teacher(self.old).logits
        return _all_count(probable_labels(old, step.labels, self.probability, self.unsure), step)


@dataclass(frozen=True)
class MedianLabels:
    """PLOP's: guesses at most as uncertain as the median of their class, the rest ignored."""

    old: str = "old"
    thresholds: str = "thresholds"

    def __call__(self, step: PixelStep) -> Labelled:
        """Return the labels."""
        old = step.teacher(self.old).logits
        return Labelled(*median_labels(old, step.labels, step.extras[self.thresholds]))


@dataclass(frozen=True)
class ReleasedLabels:
    """Those of FBL's released program."""

    old: str = "old"
    thresholds: str = "thresholds"

    def __call__(self, step: PixelStep) -> Labelled:
        """Return the labels."""
        old, thresholds = step.teacher(self.old).logits, step.extras[self.thresholds]
        return Labelled(*released_labels(old, step.labels, thresholds, step.channels))


Labels = GivenLabels | AdaptiveLabels | ProbableLabels | MedianLabels | ReleasedLabels


@dataclass(frozen=True)
class BalancedMagnitudes:
    """FBL (4): Gb of each pixel (B, h, w)."""

    labels: Labels = AdaptiveLabels()
    old: str = "old"
    exponent: str = "exponent"

    def __call__(self, step: PixelStep) -> Tensor:
        """Return Gb."""
        labels = step.once(self.labels).labels
        magnitudes = gradient_magnitudes(step.outputs.logits, labels)
        old_channels = step.teacher(self.old).logits.shape[1]
        return balanced_magnitudes(magnitudes, labels, old_channels, step.frozen[self.exponent])


@dataclass(frozen=True)
class BalancingWeights:
    """FBL (5): what each pixel weighs (B, h, w), Gb over the mean of its group."""

    magnitudes: BalancedMagnitudes = BalancedMagnitudes()
    tasks: str = "tasks"
    bounds: tuple[float, float] | None = None
    """The least and the largest weight; the paper has none."""

    def __call__(self, step: PixelStep) -> Tensor:
        """Return the weights."""
        labels, tasks = step.once(self.magnitudes.labels).labels, step.frozen[self.tasks]
        return balancing_weights(step.once(self.magnitudes), labels, tasks, self.bounds)


@dataclass(frozen=True)
class ReleasedWeights:
    """What each pixel weighs (B, h, w) in FBL's released program."""

    labels: Labels = ReleasedLabels()
    old: str = "old"
    tasks: str = "tasks"
    current: int | None = None
    """Number of the current task, so that no step has to wait for that of the last channel."""

    def __call__(self, step: PixelStep) -> Tensor:
        """Return the weights."""
        labels = step.once(self.labels).labels
        old_channels = step.teacher(self.old).logits.shape[1]
        magnitudes = released_magnitudes(step.outputs.logits, labels, old_channels)
        return released_weights(magnitudes, labels, step.frozen[self.tasks], self.current)


Weights = BalancingWeights | ReleasedWeights


def _all_count(labels: Tensor, step: PixelStep) -> Labelled:
    return Labelled(labels, step.outputs.logits.new_ones(len(labels)))
