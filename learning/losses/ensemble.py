"""Distillation from an ensemble's logits on a shared set: DCID (3) at a site, (5) at the centre.

KL( softmax(zbar / tau) || softmax(z / tau) ),   tau = 5, over the new classes or all

sum        over the batch, as printed
mean       over the batch; at a learning rate of 1e-4 it hardly trains anything
mean_tau2  that times tau^2, as Hinton et al. 2015: gradients keep their size as tau grows
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fleetledger.learning.losses.distillation import divergence

EnsembleReduction = Literal["mean", "mean_tau2", "sum"]


def ensemble_distillation(
    logits: Tensor,
    ensemble: Tensor,
    weight: Tensor,
    temperature: float = 5.0,
    classes: Tensor | None = None,
    reduction: EnsembleReduction = "mean_tau2",
) -> Tensor:
    """Return the divergence (...) of `logits` from those of the `ensemble`, both (..., n, C).

    `classes` is a mask of the classes that the softmax is over, bool (C,) or (A, C); None means
    all.
    """
    mean = divergence(logits, ensemble, weight, temperature, classes)
    if reduction == "sum":
        return mean * weight.sum(dim=-1)
    return mean * temperature**2 if reduction == "mean_tau2" else mean
