"""What FBL's released program trains on, where it differs from the paper: the code mode.

    g       = |sigmoid(z[k]) - 1|^(C_old / C)      label k; both numbers count background
    w       background and classes of the first task, one group: g / mean over the group of g
            classes of past increments: sum over increments j, from their own to the one before the
            current, of g / mean of g over the classes of increments up to j
            classes of the current task: 1
    L       = mean( nu w CE ) + 0.3 S + 0.1 N + 0.5 Q + L_POD
    S       = mean of - (1/C) sum_c ln p_c softmax(Y)_c,  Y one-hot with the old model's sigmoids
    N       = mean over channels and pixels of - p ln p
    Q       = mean over classes of w_c |q_c - q'_c|,  w_c the mean of w over the pixels labelled c,
              q_c the mean highest probability of the pixels that the model predicts as c, q'_c that
              of the old model over the pixels labelled c

Means are over all pixels, ignored ones included, whose cross-entropy is 0. w carries no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.forgetting_balance import label_means
from fleetledger.learning.losses.segmentation.pixels import (
    at_labels,
    class_counts,
    counted,
    indices,
    pixel_cross_entropy,
)


def released_magnitudes(logits: Tensor, labels: Tensor, old_channels: int) -> Tensor:
    """Return g (B, h, w) without gradient, 0 where a pixel is ignored."""
    misses = torch.sigmoid(-at_labels(logits.detach(), labels))  # 1 - sigmoid(z), exactly
    return misses ** (old_channels / logits.shape[1]) * counted(labels)


def released_weights(
    magnitudes: Tensor, labels: Tensor, tasks: Tensor, current: int | None = None
) -> Tensor:
    """Return w (B, h, w) of g = `magnitudes`; 0 where a pixel is ignored.

    `tasks` (C,) is 0 for background, else the number of the class's task, from 1 on; the last
    channel's is the `current` one, which is waited for where it is not given.
    """
    channels, current = len(tasks), int(tasks[-1]) if current is None else current
    means = label_means(magnitudes, labels, channels)
    counts = class_counts(labels, channels)
    # w is g times a factor of the label's class, but for the current task's classes.
    factors = _inverse(means, counts, tasks <= 1)
    for increment in range(2, current):
        factors = factors + _inverse(means, counts, (tasks > 1) & (tasks <= increment))
    own = indices(labels)
    weights = torch.where((tasks == current)[own], 1.0, magnitudes * factors[own])
    return weights * counted(labels)


def released_cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor, factors: Tensor
) -> Tensor:
    """Return mean(nu w CE) () for nu = `factors` (B,)."""
    losses = pixel_cross_entropy(logits, labels)
    return (factors[:, None, None] * weights * losses).mean()


def soft_label_loss(logits: Tensor, old_logits: Tensor, labels: Tensor) -> Tensor:
    """Return S ()."""
    channels, old = logits.shape[1], old_logits.shape[1]
    one_hot = functional.one_hot(indices(labels), channels).movedim(-1, 1)
    later = (one_hot * counted(labels).unsqueeze(1))[:, old:]
    wanted = torch.cat([torch.sigmoid(old_logits.detach()), later.to(old_logits.dtype)], dim=1)
    products = functional.log_softmax(logits, dim=1) * functional.softmax(wanted, dim=1)
    return -products.mean()


def output_entropy(logits: Tensor) -> Tensor:
    """Return N ()."""
    logarithms = functional.log_softmax(logits, dim=1)
    return -(logarithms.exp() * logarithms).mean()


def class_confidence(logits: Tensor, old_logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return Q () for w = `weights` (B, h, w)."""
    channels = logits.shape[1]
    highest, guesses = functional.softmax(logits, dim=1).max(dim=1)
    old_highest = functional.softmax(old_logits.detach(), dim=1).amax(dim=1)
    now = label_means(highest, guesses, channels)
    before = label_means(old_highest, labels, channels)
    factors = label_means(weights, labels, channels)
    return (factors * (now - before)).abs().mean()


def _inverse(means: Tensor, counts: Tensor, group: Tensor) -> Tensor:
    """Return one over the mean of g over a group (C,), 0 for channels outside it."""
    numbers = counts.to(means.dtype) * group
    total = (numbers * means).sum()
    return group * torch.where(total > 0, numbers.sum() / total, torch.zeros_like(total))
