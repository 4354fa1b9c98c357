"""The search that all attacks share, and how near its pictures come to the true ones.

A picture is sought whose features, or gradients, are those that were sent: Adam from nearly grey,
with a penalty on differences of neighbouring pixels. It knows no pictures; who does finds more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor
from torch.nn import functional

_C1, _C2, _C3 = 0.01**2, 0.03**2, 0.0026
"""Constants of SSIM and of gradient magnitudes, for values from 0 to 1."""
_WINDOW = 7
_SPREAD = 0.3
"""Of the noise that is begun with; at plain grey a network without biases has no slope."""


@dataclass(frozen=True)
class SearchSettings:
    """How long is searched, in which steps, and how smooth pictures are taken to be."""

    steps: int = 400
    rate: float = 0.1
    smoothness: float = 1e-3


def searched(
    loss: Callable[[Tensor], Tensor], shape: tuple[int, ...], settings: SearchSettings
) -> Tensor:
    """Return the pictures (n, c, s, s), values from 0 to 1, at which `loss` is least."""
    points = _SPREAD * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    points.requires_grad_()
    adam = torch.optim.Adam([points], settings.rate)
    for step in range(settings.steps):
        adam.param_groups[0]["lr"] = settings.rate * (1 + cos(pi * step / settings.steps)) / 2
        adam.zero_grad()
        pictures = torch.sigmoid(points)
        (loss(pictures) + settings.smoothness * _roughness(pictures)).backward()
        adam.step()
    return torch.sigmoid(points).detach()


def _roughness(pictures: Tensor) -> Tensor:
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).abs().mean((1, 2, 3))
    right = (pictures[..., 1:] - pictures[..., :-1]).abs().mean((1, 2, 3))
    return (down + right).sum()


@dataclass(frozen=True)
class PictureLikeness:
    """How much of some pictures an attack shows: means over the pictures."""

    psnr: float
    """Decibels."""
    ssim: float
    """Structural similarity; 1 is equal."""
    gmsd: float
    """Deviation of the similarity of gradient magnitudes; 0 is equal."""


def likeness(found: Tensor, truth: Tensor) -> PictureLikeness:
    """Compare each true picture (n, c, s, s) with that of `found` which is nearest to it."""
    squares = (found[None] - truth[:, None]).square().mean((2, 3, 4))
    nearest = found[squares.argmin(1)]
    psnr = -10 * torch.log10((nearest - truth).square().mean((1, 2, 3)).clamp(min=1e-6))
    return PictureLikeness(
        float(psnr.mean()), float(_ssim(nearest, truth)), float(_gmsd(nearest, truth))
    )


def _ssim(one: Tensor, other: Tensor) -> Tensor:
    """Return the mean structural similarity (Wang et al., 2004) over square windows."""
    side = min(_WINDOW, one.shape[-1])

    def mean(values: Tensor) -> Tensor:
        return functional.avg_pool2d(values, side, stride=1)

    a, b = mean(one), mean(other)
    variances = mean(one * one) - a * a + mean(other * other) - b * b
    covariance = mean(one * other) - a * b
    top = (2 * a * b + _C1) * (2 * covariance + _C2)
    return (top / ((a * a + b * b + _C1) * (variances + _C2))).mean()


def _gmsd(one: Tensor, other: Tensor) -> Tensor:
    """Return the gradient magnitude similarity deviation (Xue et al., 2014), of grey values."""
    kernel = torch.tensor([[1.0, 0, -1], [1, 0, -1], [1, 0, -1]]) / 3
    kernels = torch.stack([kernel, kernel.T])[:, None]

    def magnitude(values: Tensor) -> Tensor:
        slopes = functional.conv2d(values.mean(1, keepdim=True), kernels)
        return slopes.square().sum(1).clamp(min=1e-12).sqrt()

    a, b = magnitude(one), magnitude(other)
    similarity = (2 * a * b + _C3) / (a * a + b * b + _C3)
    return similarity.flatten(1).std(1, correction=0).mean()
