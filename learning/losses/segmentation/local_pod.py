"""Local pooled outputs distillation: maps keep what they show along rows and columns of regions.

PLOP's L_POD (Douillard et al., CVPR 2021), as FBL uses it in (10), for maps A of a network and A'
of the old one, each (B, c, h, w):

    squares of all elements; for each scale s in 1, 2, 4 cut into s x s regions, remainders dropped;
    in each region the mean over columns and the mean over rows; all of them one vector per image
    L_POD = mean over maps of f sqrt(C / C_new) * mean over images of |vector - vector'|

f is 0.01 for feature maps and 0.0005 for the small logits, whose new channels are first added to
background. FBL prints lambda2 = 0.0005 before an L_POD that holds these factors already; literal
is `PodFactors(1.0, 1.0)` and lambda2 outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

SCALES = (1, 2, 4)


@dataclass(frozen=True)
class PodFactors:
    """f of feature maps and of the small logits; ADE20k's are 0.001 and 0.00001."""

    maps: float = 0.01
    logits: float = 0.0005


def local_pod(
    maps: Sequence[tuple[Tensor, Tensor]], factors: Sequence[float], new_classes: int, channels: int
) -> Tensor:
    """Return L_POD () of pairs of maps, the old model's second, with a factor for each pair.

    `channels` is the number C of all classes, background included.
    """
    values = [
        factor * pooled_distance(now, old) for (now, old), factor in zip(maps, factors, strict=True)
    ]
    return torch.stack(values).mean() * sqrt(channels / new_classes)


def pooled_distance(now: Tensor, old: Tensor) -> Tensor:
    """Return the mean over images () of the distance of two maps' pooled squares."""
    difference = pooled(now.square()) - pooled(old.detach().square())
    return torch.linalg.vector_norm(difference, dim=1).mean()


def pooled(values: Tensor, scales: Sequence[int] = SCALES) -> Tensor:
    """Return the means along rows and columns of regions (B, L) of `values` (B, c, h, w).

    A scale at which regions would have no side is left out: of small maps.
    """
    sides = min(values.shape[-2:])
    return torch.cat([_of_regions(values, scale) for scale in scales if scale <= sides], dim=1)


def folded(logits: Tensor, old_channels: int) -> Tensor:
    """Return logits (B, C_old, h, w) with the new channels of (B, C, h, w) added to background."""
    background = logits[:, :1] + logits[:, old_channels:].sum(dim=1, keepdim=True)
    return torch.cat([background, logits[:, 1:old_channels]], dim=1)


def _of_regions(values: Tensor, scale: int) -> Tensor:
    images, depth, height, width = values.shape
    high, wide = height // scale, width // scale
    cut = values[..., : scale * high, : scale * wide]
    regions = cut.reshape(images, depth, scale, high, scale, wide)
    return torch.cat([regions.mean(dim=5).flatten(1), regions.mean(dim=3).flatten(1)], dim=1)
