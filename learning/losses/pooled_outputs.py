"""PODNet's terms: pooled maps stay, and a margin between a sample's class and all others.

Douillard et al., "PODNet: Pooled Outputs Distillation for Small-Tasks Incremental Learning", ECCV
2020, of maps h (c, h, w) of a sample, whose elements are squared before:

    width, height   sums over w, and over h, of every channel, as one vector p of length 1
    L_POD-spatial   mean over layers and samples of || p - p_old ||^2; its program: || p - p_old ||
    L_LSC           mean of [ - ln( e^(eta (y_t - delta)) / sum over i != t of e^(eta y_i) ) ]_+

y_i is the similarity of a sample and class i: its cosine with the class's one proxy, the simple
form; with several, y_i = sum_k s_ik cos_ik is no product of features and rows, as heads here are.
L_POD-flat, || h - h_old ||^2 of features of length 1, is twice `FeatureAngle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.composition import Step
from fleetledger.learning.losses.reduction import Weight, weighted_mean
from fleetledger.learning.losses.terms import weight_of
from fleetledger.learning.networks.head import SCALE

PodForm = Literal["paper", "code"]


@dataclass(frozen=True)
class PooledOutputs:
    """L_POD-spatial of the layers `inner`, from those of `teacher`."""

    teacher: str
    inner: tuple[str, ...]
    form: PodForm = "paper"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        weight, old = weight_of(step, None), step.teacher(self.teacher).inner
        values = [
            pooled_distance(step.inner[name], old[name], weight, self.form) for name in self.inner
        ]
        return torch.stack(values).mean(dim=0)


@dataclass(frozen=True)
class LocalSimilarity:
    """L_LSC of a cosine head, whose scale is eta, with the margin delta."""

    margin: float

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        shift = self.margin * step.tensors[SCALE][..., None]
        return margin_loss(step.logits, step.targets, weight_of(step, None), shift)


def pooled_distance(now: Tensor, old: Tensor, weight: Weight, form: PodForm) -> Tensor:
    """Return the mean distance (...) of the pooled maps (..., n, c, h, w) of two models."""
    difference = _pooled(now) - _pooled(old.detach())
    if form == "code":
        return weighted_mean(torch.linalg.vector_norm(difference, dim=-1), weight)
    return weighted_mean(difference.square().sum(dim=-1), weight)


def margin_loss(logits: Tensor, targets: Tensor, weight: Weight, shift: Tensor) -> Tensor:
    """Return the mean (...) of [ ln sum over i != t of e^(z_i) - (z_t - shift) ]_+."""
    places = targets.unsqueeze(-1)
    others = logits.scatter(-1, places, torch.finfo(logits.dtype).min).logsumexp(dim=-1)
    own = logits.gather(-1, places).squeeze(-1)
    return weighted_mean(functional.relu(others - own + shift), weight)


def _pooled(maps: Tensor) -> Tensor:
    squares = maps.square()
    sums = torch.cat([squares.sum(dim=-1), squares.sum(dim=-2)], dim=-1)
    return functional.normalize(sums.flatten(start_dim=-2), dim=-1)
