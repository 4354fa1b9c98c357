"""Cross-entropy of softmax scores over all classes, those seen so far, or the task's slice.

L = mean over samples of -ln softmax(z[scope])_y. The slice of the current task's classes is what
LANDER, TARGET and FedHAF (equation 4) train on; a sample of a class outside the scope is left out
of the mean. A prior (`learning.losses.prior`) is added to the scores before.

With a task for each class every sample is compared with the classes of its own task: new samples
with the new classes, exemplars with those that came with theirs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import (
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


def cross_entropy_within_tasks(
    logits: Tensor, targets: Tensor, weight: Weight, tasks: Tensor, prior: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy (...), each sample's over the classes of its own task.

    `tasks` is a number for each class, (C,) or (A, C); `prior` as of `cross_entropy`.
    """
    if prior is not None:
        logits = logits + over_classes(prior, logits)
    each = over_classes(tasks, logits)
    own = each == each.gather(-1, targets.unsqueeze(-1))
    inside = logits.masked_fill(~own, torch.finfo(logits.dtype).min)
    return weighted_mean(sample_cross_entropy(inside, targets), weight)


def sample_cross_entropy(logits: Tensor, targets: Tensor, scope: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of each sample (..., n)."""
    logarithms = functional.log_softmax(within(logits, scope), dim=-1)
    rows = logarithms.flatten(end_dim=-2)  # which, and whose gradient, is one kernel each
    return functional.nll_loss(rows, targets.flatten(), reduction="none").view_as(targets)
