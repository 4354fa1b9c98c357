"""Cross-entropy of softmax scores over all classes, those seen so far, or the task's slice.

L = mean over samples of -ln softmax(z[scope])_y. The slice of the current task's classes is what
LANDER, TARGET and FedHAF (equation 4) train on; a sample of a class outside the scope is left out
of the mean. A prior (`learning.losses.prior`) is added to the scores before.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from learning.losses.reduction import (
    Weight,
    over_classes,
    weighted_mean,
    within,
    within_scope,
)


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    weight: Weight,
    scope: Tensor | None = None,
    prior: Tensor | None = None,
) -> Tensor:
    """Return the mean cross-entropy (...) of `logits` (..., n, C) and `targets` (..., n).

    `scope` is a mask of classes, bool (C,) or (A, C); None means all. `prior` is a number for each
    class in the same shapes, or None; it may be minus infinity for classes without a sample.
    """
    if prior is not None:
        logits = logits + over_classes(prior, logits)
    if scope is not None:
        inside = over_classes(scope, logits).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        weight = within_scope(weight, inside, logits.dtype)
    return weighted_mean(sample_cross_entropy(logits, targets, scope), weight)


def sample_cross_entropy(logits: Tensor, targets: Tensor, scope: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of each sample (..., n)."""
    logarithms = functional.log_softmax(within(logits, scope), dim=-1)
    rows = logarithms.flatten(end_dim=-2)  # which, and whose gradient, is one kernel each
    return functional.nll_loss(rows, targets.flatten(), reduction="none").view_as(targets)
