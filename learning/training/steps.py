"""One step's loss and gradients, of its batch at once or of its parts one after another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import BatchPart
from fleetledger.learning.training.settings import Arithmetic
from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.work import LossFunction, Tree


@dataclass(frozen=True, eq=False)
class Given:
    """What a loss is given beside the tensors in training and the batch, as `LossFunction` says."""

    buffers: Tensors
    frozen: Tree
    extras: Tensors


@dataclass(frozen=True, eq=False)
class Slope:
    """What a step found: the loss (...), its gradient by each leaf, and the new buffers."""

    loss: Tensor
    gradients: list[Tensor]
    buffers: Tensors


def slope_of(
    loss_of: LossFunction,
    state: Trainable,
    given: Given,
    parts: Iterable[BatchPart],
    arithmetic: Arithmetic,
) -> Slope:
    """Return the mean slope of a step's parts, weighted by their rows.

    Only one part's values are in memory at a time; buffers go from part to part.
    """
    leaves, buffers = state.leaves(), given.buffers
    losses: list[Tensor] = []
    gradients: list[Tensor] = []
    for part in parts:
        batch = part.batch
        if arithmetic.channels_last:
            batch = replace(batch, inputs=arithmetic.laid_out(batch.inputs))
        with arithmetic.precision():
            loss, buffers = loss_of(leaves, buffers, given.frozen, given.extras, batch)
        if part.share != 1:
            loss = loss * part.share
        gradients = _added(gradients, state.gradients(loss, leaves), alone=part.share == 1)
        losses.append(loss.detach())
    total = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
    return Slope(total, gradients, buffers)


def _added(sums: list[Tensor], more: list[Tensor], *, alone: bool) -> list[Tensor]:
    """Return the sums, changed in place, with `more`; of a single part, `more` itself.

    Tensors of autograd may share memory, so sums begin as copies.
    """
    if not sums:
        return more if alone else [gradient.clone() for gradient in more]
    torch._foreach_add_(sums, more)
    return sums
