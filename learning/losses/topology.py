"""TPCIL's topology: which anchors are alike, and how much, stays as the old model saw it.

    - Pearson correlation between s_ij and s'_ij over the edges i < j
    s_ij = cos(f_i, f_j) under the current network, s'_ij under the old model

The simple form: vertices are the anchors of the batch, and every pair is an edge. The source is
thin (R, medium confidence): the paper learns vertices and edges by a Hebbian rule, whose constants
are not known.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fleetledger.learning.losses.directions import unit

SMALLEST_VARIANCE = 1e-12
"""Of similarities; below, in float32, only rounding would be correlated."""


def topology(features: Tensor, old: Tensor, weight: Tensor) -> Tensor:
    """Return minus the correlation (...) over all pairs of features (..., n, d) that count.

    It is 0 where one of both sides hardly varies, as with fewer than three rows.
    """
    edges = ((weight > 0).unsqueeze(-1) & (weight > 0).unsqueeze(-2)).to(weight.dtype).triu(1)
    shares = edges / edges.sum(dim=(-2, -1), keepdim=True).clamp(min=1)
    one, two = (_centred(similarities(side), shares) for side in (features, old.detach()))
    variances = (shares * one.square()).sum((-2, -1)), (shares * two.square()).sum((-2, -1))
    varies = (variances[0] > SMALLEST_VARIANCE) & (variances[1] > SMALLEST_VARIANCE)
    product = torch.where(varies, variances[0] * variances[1], 1.0)
    covariance = (shares * one * two).sum(dim=(-2, -1))
    return -torch.where(varies, covariance * product.rsqrt(), 0.0)


def similarities(features: Tensor) -> Tensor:
    """Return the cosine of every pair (..., n, n)."""
    directions = unit(features)
    return directions @ directions.mT


def _centred(values: Tensor, shares: Tensor) -> Tensor:
    return values - (shares * values).sum(dim=(-2, -1), keepdim=True)
