"""Dense networks carried out by torch: pixels' scores, and the maps that distillation looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from learning.networks.head import BIAS, WEIGHT
from learning.networks.segmentation.layers import Curve
from learning.networks.segmentation.network import SegmentationNetwork
from learning.networks.torch_layers import Mode, Tensors, TorchLayers

_CURVES = {
    "none": lambda values: values,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "hard_swish": functional.hardswish,
    "hard_sigmoid": functional.hardsigmoid,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class PixelOutputs:
    """What a dense network makes of pictures (n, channels, H, W)."""

    small: Tensor
    """Scores (n, rows, h, w) where the features are; row 0 is the background."""
    taps: tuple[Tensor, ...]
    """Maps behind each group of the trunk, then the decoder's (ASPP's output)."""
    buffers: Tensors
    """Running statistics after the pass."""
    size: tuple[int, int]
    """Height and width of the pictures."""

    @property
    def logits(self) -> Tensor:
        """Scores (n, rows, H, W) of all pixels: the small ones, resized; made at each call."""
        return upsampled(self.small, self.size)


def forward_pixels(
    network: SegmentationNetwork,
    parameters: Tensors,
    buffers: Tensors,
    pictures: Tensor,
    mode: Mode,
) -> PixelOutputs:
    """Return what the network makes of `pictures` (n, channels, H, W); pure.

    The number of rows follows from the head's tensors, so an older model is used as it is. A
    network with `frozen_norm` follows its running statistics, whatever `mode` says.
    """
    if network.frozen_norm:
        mode = replace(mode, frozen_norm=True)
    layers = TorchDenseLayers(parameters, buffers, mode)
    maps = network.body.maps(layers, pictures)
    height, width = pictures.shape[-2:]
    small = pixel_scores(parameters, maps.features)
    return PixelOutputs(small, maps.taps, {**buffers, **layers.changed}, (height, width))


def pixel_scores(parameters: Tensors, features: Tensor) -> Tensor:
    """Return the head's scores (n, rows, h, w) of pixel features (n, d, h, w)."""
    return functional.conv2d(features, parameters[WEIGHT][:, :, None, None], parameters[BIAS])


def upsampled(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Return maps (n, c, *size), bilinear between the centres of pixels."""
    return functional.interpolate(maps, size, mode="bilinear", align_corners=False)


class TorchDenseLayers(TorchLayers):
    """`DenseLayers` over torch tensors, for one agent."""

    def curve(self, kind: Curve, values: Tensor) -> Tensor:
        """Return a function of each number."""
        return _CURVES[kind](values)

    def multiply(self, maps: Tensor, factors: Tensor) -> Tensor:
        """Return maps times factors."""
        return maps * factors

    def pixel_mean(self, values: Tensor) -> Tensor:
        """Return the mean over all pixels, (n, c, 1, 1)."""
        return values.mean(dim=(-2, -1), keepdim=True)

    def concatenate(self, maps: Sequence[Tensor]) -> Tensor:
        """Return the channels of maps of one size, one after another."""
        return torch.cat(list(maps), dim=1)

    def resize(self, values: Tensor, like: Tensor) -> Tensor:
        """Return maps in the height and width of `like`."""
        return upsampled(values, (like.shape[-2], like.shape[-1]))
