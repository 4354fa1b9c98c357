"""The losses of the settings from terms of `learning.losses.segmentation`, and what they look at.

| `loss` | terms |
| --- | --- |
| any, without an old model | `PixelCrossEntropy`, (1); `released` divides by all pixels |
| `fbl` | `PixelCrossEntropy` with (2) and (5), (6); `RelationConsistency`, (9); `LocalPod`: (10) |
| `released` | the released program's five: `presets.released_fbl` |
| `lwf` | `PixelCrossEntropy`, `PixelDistillation` |
| `ilt` | the same with `EncoderDistance` |
| `mib` | `UnbiasedCrossEntropy`, `UnbiasedDistillation` |
| `plop` | `PixelCrossEntropy` with `MedianLabels`, `LocalPod` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from learning.losses.segmentation import presets
from learning.losses.segmentation.composing import DenseLoss, WeightedTerm
from learning.losses.segmentation.forgetting_balance import forgetting_exponent
from learning.losses.segmentation.local_pod import PodFactors
from learning.losses.segmentation.parts import (
    AdaptiveLabels,
    BalancedMagnitudes,
    BalancingWeights,
    Labels,
    MedianLabels,
    ProbableLabels,
)
from learning.losses.segmentation.terms import LocalPod, PixelCrossEntropy, RelationConsistency
from learning.networks.segmentation.network import SegmentationNetwork
from learning.networks.segmentation.torch_layers import DensePass
from methods.fbl.scenes import Current, stages_of
from methods.fbl.settings import LossSettings
from methods.order_models import Model
from methods.training_half import Order
from schemas.values import ClassName

OLD, TASKS, EXPONENT = "old", "tasks", "exponent"

Terms = tuple[WeightedTerm, ...]


def loss_of(network: SegmentationNetwork, settings: LossSettings, *, taught: bool) -> DenseLoss:
    """Return the loss of a device; without an old model cross-entropy alone."""
    if taught:
        return DenseLoss(DensePass(network), _terms(settings))
    released = settings.loss == "released"
    alone = presets.released_first() if released else presets.finetuning()
    return DenseLoss(DensePass(network), alone)


def frozen_parts(
    order: Order, current: Current, seen: frozenset[ClassName], old: Model
) -> dict[str, Any]:
    """Return what the terms look at, by name; `seen` are the classes that the device has had.

    K_o is the number of those that the old model knows, K that of the current ones.
    """
    known = len((seen - current.names) & set(old.names))
    return {
        OLD: {"parameters": old.parameters, "buffers": old.buffers},
        TASKS: torch.tensor([0, *_numbered(list(stages_of(order).values()))]),
        EXPONENT: torch.tensor(forgetting_exponent(known, len(current.names))),
    }


def _terms(settings: LossSettings) -> Terms:
    pod = WeightedTerm(
        settings.pod, LocalPod(factors=PodFactors(settings.pod_maps, settings.pod_logits))
    )
    if settings.loss == "fbl":
        return (*_balanced(settings), pod)
    if settings.loss == "released":
        return (*presets.released_fbl()[:-1], pod)
    if settings.loss == "plop":
        return (WeightedTerm(1.0, PixelCrossEntropy(MedianLabels())), pod)
    if settings.loss == "mib":
        return presets.mib(settings.distillation)
    if settings.loss == "lwf":
        return presets.lwf(settings.distillation)
    if settings.loss == "ilt":
        return presets.ilt(settings.distillation, settings.encoder)
    return presets.finetuning()


def _balanced(settings: LossSettings) -> Terms:
    """Return L_FS and, where it counts, L_FR."""
    magnitudes = BalancedMagnitudes(_labels(settings))
    weights = BalancingWeights(magnitudes) if settings.balanced else None
    compensation = WeightedTerm(1.0, PixelCrossEntropy(magnitudes.labels, weights))
    if not settings.relations:
        return (compensation,)
    return compensation, WeightedTerm(settings.relations, RelationConsistency(magnitudes))


def _labels(settings: LossSettings) -> Labels:
    if settings.labels == "probable":
        return ProbableLabels(probability=settings.probability, unsure=settings.unsure)
    return AdaptiveLabels(unsure=settings.unsure)


def _numbered(stages: Sequence[int]) -> list[int]:
    """Return the number of each class's task, from 1; background has 0."""
    places = {stage: number for number, stage in enumerate(sorted(set(stages)), start=1)}
    return [places[stage] for stage in stages]
