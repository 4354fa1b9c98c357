"""Pooled cube distillation: maps keep what they show in windows, and in neighbouring channels.

RCIL's knowledge distillation (Zhang et al., "Representation Compensation Networks for Continual
Semantic Segmentation", CVPR 2022), for maps A of a network and A' of the old one, (B, c, h, w), of
whose elements the squares are pooled by means with stride 1 and zeros around:

    L_skd   mean over windows of M x M pixels, M in 4, 8, 12, 16, 20, 24, of |P_M(A) - P_M(A')|
    L_ckd   |P(A) - P(A')| over 3 neighbouring channels
    both    mean over maps of f sqrt(C / C_new) * mean over images

Distances are Euclidean, as its program has them. L_skd looks at maps and the small logits, L_ckd
at maps alone; f of the last of each is `PodFactors.logits`. It is RCIL's loss; its other half is a
frozen branch beside every 3 x 3 convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.local_pod import PodFactors

WINDOWS = (4, 8, 12, 16, 20, 24)

Pairs = Sequence[tuple[Tensor, Tensor]]


def pooled_cubes(
    maps: Pairs, small: tuple[Tensor, Tensor], factors: PodFactors, new_classes: int, channels: int
) -> Tensor:
    """Return L_skd + L_ckd () of pairs of maps, the old model's second.

    `channels` is the number C of all classes, background included.
    """
    spatial = _summed([*maps, small], _spatial, factors)
    return (spatial + _summed(maps, _channel, factors)) * sqrt(channels / new_classes)


def _summed(pairs: Pairs, distance: Callable[[Tensor], Tensor], factors: PodFactors) -> Tensor:
    weights = [factors.maps] * (len(pairs) - 1) + [factors.logits]
    values = [
        weight * distance(now.square() - old.detach().square())
        for (now, old), weight in zip(pairs, weights, strict=True)
    ]
    return torch.stack(values).mean()


def _spatial(difference: Tensor) -> Tensor:
    """Return the mean over windows and images () of the length; pooling is linear."""
    lengths = [
        _length(functional.avg_pool2d(difference, window, stride=1, padding=window // 2))
        for window in WINDOWS
    ]
    return torch.stack(lengths).mean()


def _channel(difference: Tensor) -> Tensor:
    rows = difference.transpose(1, 2)
    return _length(functional.avg_pool2d(rows, (3, 1), stride=1, padding=(1, 0)))


def _length(values: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values.flatten(1), dim=1).mean()
