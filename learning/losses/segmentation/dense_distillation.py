"""Segmentation's baselines: old models distilled at every pixel, and background that may be more.

LwF      KD = mean over pixels and old channels of - q_c ln p_c,  p the softmax over old channels
ILT      KD, and the mean squared distance of the encoder's features (Michieli and Zanuttigh,
         ICCV Workshops 2019)
MiB      modelling the background (Cermelli et al., CVPR 2020); both softmaxes over all channels
         CE   the probability of a pixel labelled background is the sum over old channels
         KD   that of background is compared with background plus all new channels

q is the old model's softmax, without gradient. Factors of these papers' programs (100; MiB 10)
belong to means over channels. Ignored pixels count in none, but in the features' distance.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.pixels import (
    counted,
    counted_mean,
    pixel_cross_entropy,
)


def pixel_distillation(logits: Tensor, old_logits: Tensor, labels: Tensor) -> Tensor:
    """Return LwF's KD ()."""
    known = functional.log_softmax(logits[:, : old_logits.shape[1]], dim=1)
    return _distilled(known, old_logits, labels)


def encoder_distance(now: Tensor, old: Tensor) -> Tensor:
    """Return the mean squared distance () of features (B, c, h, w)."""
    return functional.mse_loss(now, old.detach())


def unbiased_cross_entropy(logits: Tensor, labels: Tensor, old_channels: int) -> Tensor:
    """Return MiB's CE (); labels below C_old all stand for background."""
    background = logits[:, :old_channels].logsumexp(dim=1, keepdim=True)
    merged = torch.cat([background, logits[:, old_channels:]], dim=1)
    places = (labels - old_channels + 1).clamp(min=0)
    targets = torch.where(counted(labels), places, labels)
    return counted_mean(pixel_cross_entropy(merged, targets), labels)


def unbiased_distillation(logits: Tensor, old_logits: Tensor, labels: Tensor) -> Tensor:
    """Return MiB's KD ()."""
    old = old_logits.shape[1]
    behind = torch.cat([logits[:, :1], logits[:, old:]], dim=1)
    merged = torch.cat([behind.logsumexp(dim=1, keepdim=True), logits[:, 1:old]], dim=1)
    return _distilled(functional.log_softmax(merged, dim=1), old_logits, labels)


def _distilled(logarithms: Tensor, old_logits: Tensor, labels: Tensor) -> Tensor:
    wanted = functional.softmax(old_logits.detach(), dim=1)
    return counted_mean(-(wanted * logarithms).mean(dim=1), labels)
