"""Dense networks carried out by torch: pixels' scores, and the maps that distillation looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.head import BIAS, WEIGHT
from fleetledger.learning.networks.segmentation.layers import Curve
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.torch_layers import Mode, Tensors, TorchLayers

_CURVES = {
    "none": lambda values: values,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "hard_swish": functional.hardswish,
    "hard_sigmoid": functional.hardsigmoid,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class DenseOutputs:
    """What a dense network makes of pictures (n, channels, h, w)."""

    maps: tuple[Tensor, ...]
    """Maps behind each group of the trunk, the last of which is the encoder's output, then the
    decoder's (of ASPP its output)."""
    small_logits: Tensor
    """Scores (n, rows, h', w') where the features are; row 0 is the background."""
    logits: Tensor
    """Scores (n, rows, h, w) of all pixels: the small ones, resized."""


@dataclass(frozen=True)
class DensePass:
    """A network as a function of its tensors; equal networks make equal values of it.

    The number of rows follows from the head's tensors, so an older model is used as it is. A
    part with a frozen norm follows its running statistics, whatever the mode says.
    """

    network: SegmentationNetwork

    def __call__(
        self, parameters: Tensors, buffers: Tensors, inputs: Tensor, mode: Mode
    ) -> tuple[DenseOutputs, Tensors]:
        """Return what the network makes of pictures (n, channels, h, w), and its new buffers."""
        body, frozen = self.network.body, self.network.frozen_norm
        held = replace(mode, frozen_norm=True)
        trunk = TorchDenseLayers(parameters, buffers, mode if frozen == "none" else held)
        decoder = TorchDenseLayers(parameters, buffers, held if frozen == "all" else mode)
        maps = body.decoded(decoder, body.trunk.maps(trunk, inputs))
        small = pixel_scores(parameters, maps.features)
        logits = upsampled(small, (inputs.shape[-2], inputs.shape[-1]))
        changed = {**buffers, **trunk.changed, **decoder.changed}
        return DenseOutputs(maps.taps, small, logits), changed


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
