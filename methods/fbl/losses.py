"""The loss that the settings name, of `learning.losses.segmentation.presets`, and what it looks at.

Without an old model it is cross-entropy, (1), whatever they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import DenseLoss, WeightedTerm
from fleetledger.learning.losses.segmentation.forgetting_balance import forgetting_exponent
from fleetledger.learning.losses.segmentation.local_pod import PodFactors
from fleetledger.learning.losses.segmentation.parts import (
    AdaptiveLabels,
    Labels,
    ProbableLabels,
    ReleasedLabels,
)
from fleetledger.learning.losses.segmentation.terms import LocalPod, PooledCubes
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.methods.fbl.scenes import Current, stages_of
from fleetledger.methods.fbl.settings import LossSettings
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.instruction_models import Model
from fleetledger.schemas.values import ClassName

OLD, TASKS, EXPONENT = "old", "tasks", "exponent"


def loss_of(
    network: SegmentationNetwork, settings: LossSettings, task: int, *, taught: bool
) -> DenseLoss:
    """Return the loss of a device in its `task`, from 1 on; without a teacher cross-entropy alone.

    All devices of a stage are in the same task, so that they have equal losses.
    """
    if taught:
        return DenseLoss(DensePass(network), _terms(settings, task))
    released = settings.loss == "released"
    alone = presets.released_first() if released else presets.finetuning()
    return DenseLoss(DensePass(network), alone)


def frozen_parts(
    instruction: FitInstruction, current: Current, seen: frozenset[ClassName], old: Model
) -> dict[str, Any]:
    """Return what the terms look at, by name; `seen` are the classes that the device has had.

    K_o is the number of those that the old model knows, K that of the current ones.
    """
    known = len((seen - current.names) & set(old.names))
    return {
        OLD: {"parameters": old.parameters, "buffers": old.buffers},
        TASKS: torch.tensor([0, *_numbered(list(stages_of(instruction).values()))]),
        EXPONENT: torch.tensor(forgetting_exponent(known, len(current.names))),
    }


def task_of(instruction: FitInstruction) -> int:
    """Return the number of the newest task, that of the head's last channel."""
    return _numbered(list(stages_of(instruction).values()))[-1]


def _terms(settings: LossSettings, task: int) -> presets.Terms:
    """Return the terms beside an old model, with the settings' factors."""
    factors = PodFactors(settings.pod_maps, settings.pod_logits)
    pod = WeightedTerm(settings.pod, LocalPod(factors=factors))
    if settings.loss == "fbl":
        return presets.fbl(
            _labels(settings),
            balanced=settings.balanced,
            bounds=settings.weight_bounds,
            relations=settings.relations,
            pod=pod,
        )
    if settings.loss == "released":
        return presets.released_fbl(
            pod,
            task,
            _released_labels(settings),
            balanced=settings.balanced,
            relations=settings.relations > 0,
        )
    if settings.loss == "plop":
        return presets.plop(pod)
    if settings.loss == "rcil":
        return presets.rcil(WeightedTerm(settings.pod, PooledCubes(factors=factors)))
    if settings.loss == "mib":
        return presets.mib(settings.distillation)
    if settings.loss == "lwf":
        return presets.lwf(settings.distillation)
    if settings.loss == "ilt":
        return presets.ilt(settings.distillation, settings.encoder)
    return presets.finetuning()


def _labels(settings: LossSettings) -> Labels:
    if settings.labels == "probable":
        return ProbableLabels(probability=settings.probability, unsure=settings.unsure)
    return AdaptiveLabels(unsure=settings.unsure)


def _released_labels(settings: LossSettings) -> Labels:
    """Return the program's labels; guesses that are not accepted are ignored by all of these."""
    if settings.labels == "probable":
        return ProbableLabels(probability=settings.probability, unsure="ignore")
    return ReleasedLabels()


def _numbered(stages: Sequence[int]) -> list[int]:
    """Return the number of each class's task, from 1; background has 0."""
    places = {stage: number for number, stage in enumerate(sorted(set(stages)), start=1)}
    return [places[stage] for stage in stages]
