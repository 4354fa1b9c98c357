"""Forgetting-balanced relation consistency: each class keeps its relations to the old ones.

FBL (7) to (9), over the pixels with label k, of K_o + K^t classes:

    Pbar_k   = mean of the model's probabilities
    Ybar_k   = mean of the old model's in its columns, and of the one-hot labels in the later ones
    Gamma_k  = mean of Gb (`forgetting_balance`), Gamma_task(k) the same over its task's classes
    L_FR     = 1/(K_o + K^t) sum over classes k present of
               Gamma_k / Gamma_task(k) KL( Ybar_k / sum Ybar_k || Pbar_k )

The paper prints KL(Pbar || Ybar), where Ybar has zeros and sums to two for new classes; the reverse
is finite, and least where the student has the relations of the label. Background is no class here.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.forgetting_balance import (
    group_means,
    label_means,
    ratios,
)
from fleetledger.learning.losses.segmentation.pixels import class_counts, class_means


def relation_consistency(
    logits: Tensor, old_logits: Tensor, labels: Tensor, balanced: Tensor, groups: Tensor
) -> Tensor:
    """Return L_FR () for labels (B, h, w) with Gb = `balanced` (B, h, w); `groups` as there."""
    channels = logits.shape[1]
    counts = class_counts(labels, channels)
    gamma = label_means(balanced, labels, channels)
    factors = ratios(gamma, group_means(gamma, counts, groups)) * (counts > 0)
    wanted = relation_labels(old_logits, labels, channels)
    found = class_means(functional.softmax(logits, dim=1), labels, channels)
    divergences = _divergences(wanted / wanted.sum(dim=1, keepdim=True), found)
    return (factors * divergences)[1:].sum() / (channels - 1)


def relation_labels(old_logits: Tensor, labels: Tensor, channels: int) -> Tensor:
    """Return Ybar (C, C), without gradient; rows of old classes without a pixel mean nothing."""
    old = old_logits.shape[1]
    known = class_means(functional.softmax(old_logits.detach(), dim=1), labels, channels)
    later = torch.eye(channels, dtype=known.dtype, device=known.device)[:, old:]
    present = class_counts(labels, channels).unsqueeze(1) > 0
    return torch.cat([torch.where(present, known, 1 / old), later], dim=1)


def _divergences(wanted: Tensor, found: Tensor) -> Tensor:
    """Return KL(wanted || found) of each row; 0 ln 0 is 0."""
    logarithms = found.clamp(min=torch.finfo(found.dtype).tiny).log()
    return (torch.xlogy(wanted, wanted) - wanted * logarithms).sum(dim=1)
