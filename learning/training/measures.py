"""What a full pass over an agent's data can tell: importance, class means, uncertainty."""

from __future__ import annotations

import torch
from torch import Tensor

from fleetledger.learning.losses.ewc import FISHER_CAP
from fleetledger.learning.training.batches import AgentBatches
from fleetledger.learning.training.devices import moved
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.steps import Given, slope_of
from fleetledger.learning.training.work import Work


def fisher_diagonal(
    work: Work, settings: TrainingEngineSettings, cap: float = FISHER_CAP
) -> dict[str, Tensor]:
    """Return the diagonal of the empirical Fisher matrix by the work's parameters.

    The mean over the batches of one epoch of the squared gradient of the work's loss, its entries
    capped (Fed-EWC: cross-entropy over the task's slice, 1e-4). Of no batch, zeros. Give a loss
    that does not train (`ComposedLoss(..., training="none")`) to measure the model in use.
    """
    work = moved(work, settings.device)
    state = Trainable.copied(work.parameters, momentum=0.0)
    given = Given(work.buffers, work.frozen, {})
    sums = {name: torch.zeros_like(value) for name, value in work.parameters.items()}
    count = work.batching.count(len(work.data))
    for parts in AgentBatches.of(work, buffers_owned=False).steps(0, {}):
        slope = slope_of(work.loss, state, given, parts, settings.arithmetic)
        for total, gradient in zip(sums.values(), slope.gradients, strict=True):
            total.add_(gradient.square(), alpha=1 / count)
    return {name: total.clamp(max=cap) for name, total in sums.items()}


def class_means(features: Tensor, targets: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return each class's mean feature (C, d), zero where it has none, and its samples (C,)."""
    counts = torch.bincount(targets, minlength=classes)
    sums = torch.zeros(classes, features.shape[1], dtype=features.dtype, device=features.device)
    sums.index_add_(0, targets, features)
    return sums / counts.clamp(min=1)[:, None], counts
