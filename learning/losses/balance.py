"""Feature balance: features of new classes shall be as long as those of old ones.

FedHAF (3)   | (1/C_new) sum_{c new} ||F'||_c  -  (1/C_old) sum_{c old} ||F'||_c |

||F'||_c is the mean Euclidean norm of the features over the samples of class c. Classes without a
sample are left out of both means; without a new or without an old class the term is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fleetledger.learning.losses.reduction import LEAST_TOTAL, weighted_mean


def feature_balance(features: Tensor, targets: Tensor, weight: Tensor, new: Tensor) -> Tensor:
    """Return the absolute difference (...) of both means of `features` (..., n, d).

    `new` is a mask of the classes, bool (C,) or (A, C). The gradient at a difference of 0, and at
    a feature of length 0, is 0.
    """
    is_new = new.expand(*targets.shape[:-1], -1).gather(-1, targets).to(weight.dtype)
    lengths = torch.linalg.vector_norm(features, dim=-1)
    share = weight * _part_of_class(targets, weight)
    of_new, of_old = share * is_new, share * (1 - is_new)
    difference = weighted_mean(lengths, of_new) - weighted_mean(lengths, of_old)
    both = (of_new.sum(dim=-1) > 0) & (of_old.sum(dim=-1) > 0)
    return difference.abs() * both


def _part_of_class(targets: Tensor, weight: Tensor) -> Tensor:
    """Return 1 / the weight of each sample's class (..., n), so that every class counts once."""
    same = targets.unsqueeze(-1) == targets.unsqueeze(-2)
    total = (same * weight.unsqueeze(-2)).sum(dim=-1)
    # No row of a class without a row counts.
    return total.clamp(min=LEAST_TOTAL).reciprocal()
