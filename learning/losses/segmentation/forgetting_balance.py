"""Forgetting-balanced semantic compensation: pixels weigh by how fast their task is forgotten.

FBL (3) to (6), for pixels with label k (pseudo labels among them):

    |G|      = 1 - P[k]                                    the gradient at the score of the label
    Gb       = |G|^(K_o / (K_o + K)) where k is an old class; |G| for new ones and background
    Gamma_g  = mean of Gb over the batch's pixels of group g: background, then each task's classes
    L_FS     = mean over pixels of (Gb / Gamma_g) CE       printed as a sum

K_o and K are the device's own numbers of old and of new classes. No gradient flows through Gb.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.pixels import (
    BACKGROUND,
    at_labels,
    class_counts,
    class_means,
    counted,
    indices,
)


def forgetting_exponent(old: int, new: int) -> float:
    """Return K_o / (K_o + K) for numbers of a device's classes; 1 for a device without any."""
    return old / (old + new) if old + new else 1.0


def gradient_magnitudes(logits: Tensor, labels: Tensor) -> Tensor:
    """Return |G| (B, h, w) without gradient, 0 where a pixel is ignored."""
    own = at_labels(functional.softmax(logits.detach(), dim=1), labels)
    return (own - 1).abs() * counted(labels)


def balanced_magnitudes(
    magnitudes: Tensor, labels: Tensor, old_channels: int, exponent: Tensor | float
) -> Tensor:
    """Return Gb (B, h, w) of (4)."""
    old = (labels != BACKGROUND) & (labels < old_channels)
    return torch.where(old, magnitudes**exponent, magnitudes)


def label_means(values: Tensor, labels: Tensor, channels: int) -> Tensor:
    """Return the mean (C,) of `values` (B, h, w) over the pixels of each label, 0 for none."""
    return class_means(values.unsqueeze(1), labels, channels).squeeze(1)


def group_means(means: Tensor, counts: Tensor, groups: Tensor) -> Tensor:
    """Return for each channel (C,) the mean of its group, Gamma, from channels' means and counts.

    `groups` (C,) are numbers below C: 0 for background, else the task of the channel's class. A
    group without a pixel has 0.
    """
    shares = counts.to(means.dtype) / counts.sum().clamp(min=1)
    same = (groups.unsqueeze(0) == groups.unsqueeze(1)).to(means.dtype)
    total = (same * shares).sum(dim=1)
    sums = (same * (shares * means)).sum(dim=1)
    return sums / torch.where(total > 0, total, torch.ones_like(total))


def ratios(values: Tensor, means: Tensor) -> Tensor:
    """Return values / means, and 1 where a mean is 0: all values of that group are."""
    return torch.where(means > 0, values / means, torch.ones_like(values))


def balancing_weights(
    balanced: Tensor, labels: Tensor, groups: Tensor, bounds: tuple[float, float] | None = None
) -> Tensor:
    """Return Gb / Gamma (B, h, w) of Gb = `balanced`; 0 where a pixel is ignored.

    With `bounds` no weight is below the first or above the second.
    """
    channels = len(groups)
    means = label_means(balanced, labels, channels)
    gamma = group_means(means, class_counts(labels, channels), groups)
    weights = ratios(balanced, gamma[indices(labels)])
    if bounds is not None:
        weights = weights.clamp(*bounds)
    return weights * counted(labels)
