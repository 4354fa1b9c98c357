"""Sigmoid scores under element-wise cross-entropy, as iCaRL, GLFC and LGA train.

    L = mean over samples i and classes c of w_i BCE(sigmoid(z_ic), Y_ic),   Y in [0, 1]

Y is one-hot, or has the old model's sigmoids in its first columns (LGA, "code" mode).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import Weight, weighted_mean


def binary_cross_entropy(
    logits: Tensor, labels: Tensor, weight: Weight, factor: Tensor | None = None
) -> Tensor:
    """Return the mean (...) over samples and classes; `labels` (..., n, C) are probabilities.

    `factor` (..., n) multiplies each sample's loss and carries no gradient.
    """
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    means = losses.mean(dim=-1)
    return weighted_mean(means if factor is None else means * factor.detach(), weight)


def one_hot_with_old(targets: Tensor, classes: int, old_logits: Tensor | None) -> Tensor:
    """Return Y (..., n, `classes`): one-hot, with the old model's sigmoids in its columns."""
    if old_logits is None:
        return later_one_hot(targets, 0, classes).to(torch.get_default_dtype())
    known = torch.sigmoid(old_logits.detach())
    return torch.cat([known, later_one_hot(targets, known.shape[-1], classes)], dim=-1)


def later_one_hot(targets: Tensor, first: int, classes: int) -> Tensor:
    """Return whether targets (..., n) are each of the classes from `first` on, bool (..., n, C)."""
    return targets.unsqueeze(-1) == torch.arange(first, classes, device=targets.device)
