"""Means over the rows that count; the one way in which terms become a number per agent."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

Weight: TypeAlias = "Tensor | None"
"""Of rows (..., n), 0 or more; None where all of them count alike, which saves every mask."""


LEAST_TOTAL = 1e-20
"""Below any sum of weights but that of none; what is divided is then 0, and so is the mean."""


def weighted_mean(values: Tensor, weight: Weight) -> Tensor:
    """Return sum(w v) / sum(w) over the last axis (..., n), 0 where all weights are."""
    if weight is None:
        return values.mean(dim=-1)
    if values.device.type == "cpu":  # where a function of one's own costs more than its kernels
        return _mean(values, weight, _total(weight))
    mean: Tensor = _WeightedMean.apply(values, weight)
    return mean


def _total(weight: Tensor) -> Tensor:
    return weight.sum(dim=-1).clamp(min=LEAST_TOTAL)


def _mean(values: Tensor, weight: Tensor, total: Tensor) -> Tensor:
    # A value of a row that does not count may be infinite, which 0 times it would not remove.
    counted = torch.where(weight > 0, values, torch.zeros_like(values))
    return (counted * weight).sum(dim=-1) / total


class _WeightedMean(torch.autograd.Function):  # type: ignore[misc]
    """The mean, whose gradient by the values is w / sum(w); the weights have none."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's
        values: Tensor,
        weight: Tensor,
    ) -> Tensor:
        total = _total(weight)
        ctx.save_for_backward(weight, total)
        return _mean(values, weight, total)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's
        weight, total = ctx.saved_tensors
        return (slope / total).unsqueeze(-1) * weight, None


def within_scope(weight: Weight, inside: Tensor, kind: torch.dtype) -> Tensor:
    """Return the weight of rows that are `inside` (..., n), bool, as numbers of a kind."""
    return inside.to(kind) if weight is None else weight * inside


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
