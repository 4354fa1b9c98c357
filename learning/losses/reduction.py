"""Means over the rows that count; the one way in which terms become a number per agent."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return sum(w v) / sum(w) over the last axis (..., n), 0 where all weights are."""
    total = weight.sum(dim=-1)
    # A value of a row that does not count may be infinite, which 0 times it would not remove.
    counted = torch.where(weight > 0, values, torch.zeros_like(values))
    return (counted * weight).sum(dim=-1) / torch.where(total > 0, total, torch.ones_like(total))


def over_classes(values: Tensor, scores: Tensor) -> Tensor:
    """Return `values` (C,) for all agents, or (A, C), shaped to meet `scores` (..., n, C)."""
    return (values if values.dim() == 1 else values.unsqueeze(-2)).expand(scores.shape)


def within(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return `scores` (..., n, C) with the lowest finite number where `mask` is False.

    Their softmax is 0 there, and no product with it is undefined.
    """
    if mask is None:
        return scores
    return scores.masked_fill(~over_classes(mask, scores), torch.finfo(scores.dtype).min)


def summed_per_agent(values: Tensor, stacked: bool) -> Tensor:
    """Return the sum of all elements, or of each agent's (A, ...) -> (A,)."""
    if not stacked:
        return values.sum()
    return values.reshape(len(values), values[0].numel()).sum(dim=1)
