"""FedMAX: activations before the last layer shall spread evenly (Chen et al., ECML PKDD 2020).

a = input of the last linear layer (D numbers; behind a head with a hidden layer what that makes of
the features), U the uniform distribution over D.

    released   mean over samples and over D of the terms of KL(U || softmax(a))
    DCID (7)   KL(softmax(a) || U), summed over D

With the usual factor beta = 500 only the released reduction is usable: the other is D times larger.
"""

from __future__ import annotations

from math import log
from typing import Literal

from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import weighted_mean

FedMaxDirection = Literal["uniform_first", "softmax_first"]
FedMaxReduction = Literal["mean", "sum"]


def fedmax(
    features: Tensor,
    weight: Tensor,
    direction: FedMaxDirection = "uniform_first",
    reduction: FedMaxReduction = "mean",
) -> Tensor:
    """Return the divergence (...) of the activations `features` (..., n, D) from uniform."""
    logarithms = functional.log_softmax(features, dim=-1)
    width = features.shape[-1]
    if direction == "uniform_first":
        divergences = -logarithms.mean(dim=-1) - log(width)
    else:
        divergences = (logarithms.exp() * logarithms).sum(dim=-1) + log(width)
    if reduction == "mean":
        divergences = divergences / width
    return weighted_mean(divergences, weight)
