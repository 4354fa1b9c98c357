"""Feature distillation: the features of old samples stay where an older model put them.

FedHAF (2)   mean over samples of || F' - F'_old ||^2, a sum or a mean over dimensions
LUCIR        mean over samples of 1 - cos(f, f_old)   (Hou et al., CVPR 2019: less-forget), times
             5 sqrt(old classes / new classes)
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import Weight, weighted_mean


def feature_distance(
    features: Tensor, old: Tensor, weight: Weight, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """Return the mean squared distance (...) of features (..., n, d); 0 where no row counts."""
    squares = (features - old.detach()).square()
    return weighted_mean(
        squares.mean(dim=-1) if reduction == "mean" else squares.sum(dim=-1), weight
    )


def feature_angle(features: Tensor, old: Tensor, weight: Weight) -> Tensor:
    """Return the mean of 1 - cosine (...) between features (..., n, d) and the older ones."""
    cosines = functional.cosine_similarity(features, old.detach(), dim=-1)
    return weighted_mean(1 - cosines, weight)


def less_forget_factor(base: float, old: int, new: int) -> float:
    """Return LUCIR's adaptive lambda for numbers of classes; 0 where one of both is 0."""
    return base * sqrt(old / new) if new else 0.0
