"""Distillation on the shared set: DCD (3) at a site and DAD (5) at the coordinator are one work.

    KL( softmax(zbar / tau) || softmax(z / tau) ), over the session's new classes or all

No labels, no weight decay; the network is in use: normalised by its running statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learning.losses.anchor_terms import EnsembleDistillation
from learning.losses.composing import ComposedLoss, Weighted
from learning.networks.pictures import Pictures
from learning.networks.torch_layers import Tensors
from learning.training.chance import Chance
from learning.training.schedules import constant_rates
from learning.training.work import Batching, Data, Sgd, Work
from methods.dcid.assignment import DcidAssignment
from methods.dcid.images import Images

_ENSEMBLE, _RANGE = "ensemble", "range"


@dataclass(frozen=True, eq=False)
class Pupil:
    """What is distilled into, and the images that it sees."""

    parameters: Tensors
    buffers: Tensors
    images: Images
    pictures: Pictures


def distilling_work(
    assignment: DcidAssignment,
    pupil: Pupil,
    ensemble: npt.NDArray[np.float32],
    old: int,
    tau: float,
    chance: Chance,
) -> Work:
    """Return the work of distilling logits `ensemble` (S, C); the first `old` classes are old."""
    settings = assignment.settings
    classes = _RANGE if settings.softmax_range == "new" else None
    term = EnsembleDistillation(_ENSEMBLE, tau, classes, settings.reduction)
    images = len(pupil.images)
    return Work(
        parameters=pupil.parameters,
        buffers=pupil.buffers,
        data=Data(
            torch.tensor(pupil.images),
            torch.zeros(images, dtype=torch.int64),
            {_ENSEMBLE: torch.from_numpy(ensemble)},
        ),
        loss=ComposedLoss(assignment.network, (Weighted(1.0, term),), training="none"),
        optimiser=Sgd(
            constant_rates(settings.distil_rate, settings.distil_epochs), settings.momentum
        ),
        batching=Batching(min(settings.distil_batch, max(2, images))),
        chance=chance,
        frozen={_RANGE: new_classes(ensemble.shape[1], old)},
        pictures=pupil.pictures,
    )


def new_classes(classes: int, old: int) -> Tensor:
    """Return the mask (C,) of the session's classes."""
    return torch.arange(classes) >= old
