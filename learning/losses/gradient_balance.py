"""Losses that balance the forgetting of classes by the gradients of their samples (LGA).

Dong et al., "No One Left Behind", PAMI 2023, equations (2) to (6), and GLFC, CVPR 2022:

    |V_i| = 1 - p_i[y_i]                        the gradient at the score of the sample's own class
    w_i   = sum over groups G of classes with y_i in G of |V_i|^e / mean over the batch's samples
            with a class in G of |V|^e          1 for a sample in no group
    Y_i   = the old model's probabilities in its columns, one-hot of y_i in those that came later
    D_i   = sum_c Y_ic (ln Y_ic - ln p_ic)      KL(Y || p) on raw slices: the slices of the tasks
            add up to the whole; or each slice of p and Y made to sum to one first

p is a softmax, or a sigmoid as in the released programs, which also let the groups of past tasks
overlap and clamp w. No gradient flows through w and Y.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.binary import later_one_hot
from fleetledger.learning.losses.reduction import Weight

Activation = Literal["softmax", "sigmoid"]


def gradient_magnitudes(logits: Tensor, targets: Tensor, activation: Activation) -> Tensor:
    """Return |V| (..., n) of `logits` (..., n, C) and `targets` (..., n), without gradient."""
    scores = logits.detach()
    own = targets.unsqueeze(-1)
    if activation == "sigmoid":
        return torch.sigmoid(-scores.gather(-1, own)).squeeze(-1)  # 1 - sigmoid(z), exactly
    return 1 - functional.softmax(scores, dim=-1).gather(-1, own).squeeze(-1)


def balancing_weights(
    magnitudes: Tensor, targets: Tensor, weight: Weight, groups: Tensor, exponent: Tensor
) -> Tensor:
    """Return w (..., n) of magnitudes (..., n); rows of `weight` 0 are in no mean.

    `groups` says which classes a group has: bool (G, C), or (A, G, C) for a stack; `exponent` is
    a number () or one for each agent (A,). Samples of a group whose magnitudes are all zero weigh
    1 in it.
    """
    powered = magnitudes ** exponent.unsqueeze(-1)
    members = _members(groups, targets).to(powered.dtype)
    shares = powered.unsqueeze(-2) * members
    number, total = (_counted_sum(values, weight) for values in (members, shares))
    relative = torch.where(total > 0, shares * number / total, members)
    alone = members.sum(dim=-2) == 0
    return (relative.sum(dim=-2) + alone).detach()


def soft_targets(targets: Tensor, classes: int, old_logits: Tensor) -> Tensor:
    """Return Y (..., n, `classes`) with the old model's softmax in its columns; no gradient."""
    known = functional.softmax(old_logits.detach(), dim=-1)
    return torch.cat([known, later_one_hot(targets, known.shape[-1], classes)], dim=-1)


def semantic_divergence(logits: Tensor, labels: Tensor, slices: Tensor | None = None) -> Tensor:
    """Return D (..., n) of `logits` (..., n, C) from `labels` Y (..., n, C), 0 ln 0 being 0.

    `slices` are masks of the tasks' classes (T, C), each class in one of them: then every slice is
    a distribution of its own, and one in which Y is all zero adds nothing.
    """
    logarithms = functional.log_softmax(logits, dim=-1)
    if slices is None:  # 0 times a finite number is 0
        return torch.xlogy(labels, labels).sum(dim=-1) - (labels * logarithms).sum(dim=-1)
    parts = [_slice_divergence(labels, logarithms, mask) for mask in slices]
    return torch.stack(parts).sum(dim=0)


def _slice_divergence(labels: Tensor, logarithms: Tensor, mask: Tensor) -> Tensor:
    lowest = torch.finfo(logarithms.dtype).min
    inside = functional.log_softmax(logarithms.masked_fill(~mask, lowest), dim=-1)
    own = labels * mask
    total = own.sum(dim=-1, keepdim=True)
    return _divergence(own / torch.where(total > 0, total, torch.ones_like(total)), inside)


def _divergence(labels: Tensor, logarithms: Tensor) -> Tensor:
    """Return sum_c Y (ln Y - ln p); columns in which Y is zero do not count, whatever p is."""
    there = labels > 0
    cross = torch.where(there, labels * logarithms, torch.zeros_like(logarithms)).sum(dim=-1)
    return torch.xlogy(labels, labels).sum(dim=-1) - cross


def _counted_sum(values: Tensor, weight: Weight) -> Tensor:
    """Return the sum over the rows that count of values (..., G, n), as (..., G, 1)."""
    counted = values if weight is None else values * weight.unsqueeze(-2)
    return counted.sum(dim=-1, keepdim=True)


def _members(groups: Tensor, targets: Tensor) -> Tensor:
    """Return (..., G, n): whether a sample's class is in a group."""
    if groups.dim() == 2:
        return groups[:, targets].movedim(0, -2)
    index = targets.unsqueeze(-2).expand(*groups.shape[:-1], targets.shape[-1])
    return groups.gather(-1, index)
