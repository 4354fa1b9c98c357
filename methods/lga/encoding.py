"""The gradient encoding network Gamma, and what a device makes with it of its prototypes.

LGA, section "prototype gradient communication": a fixed random network ("LeNet-4") whose gradients
at a perturbed picture, softmax cross-entropy with the picture's own class, are all that a proxy
gets of it. Three 5 x 5 convolutions with 12 channels and a linear layer, sigmoids between them, all
numbers uniform in (-0.5, 0.5). The paper's proxy sends Gamma to every device; here everybody makes
it from its seed, equal on every machine, so that it costs no byte.

Gradients are written out layer by layer, for all pictures at once: each picture has its own, which
torch gives by `vmap` alone, whose first call imports 800 modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.conversion import copied_together
from fleetledger.learning.networks.plan import uniform
from fleetledger.learning.networks.seeding import stream_key
from fleetledger.methods.errors import MethodError

Gradients = Mapping[str, Tensor]
"""Of one picture, or (rows, ...) of several."""

CHANNELS = 12
SIDE = 5
LAYERS = 4
_BOUND = 0.5
_SMALLEST = 4


class LayerSlope(NamedTuple):
    """How the loss of each picture depends on a layer's sums, and what the layer saw of it."""

    seen: Tensor
    """(rows, inputs of a sum, places)."""
    sums: Tensor
    """(rows, outputs, places)."""


@lru_cache(4)
def _on(encoding: Encoding, device: torch.device, kind: torch.dtype) -> dict[str, Tensor]:
    """Return Gamma's numbers where pictures are, not to be changed."""
    moved = copied_together(encoding.tensors, str(device))
    return {name: tensor.to(kind) for name, tensor in moved.items()}


@dataclass(frozen=True)
class Encoding:
    """Gamma for square pictures (channels, side, side) and so many outputs.

    `classes` is reserved beforehand: a class takes the output of its index in the registry.
    """

    channels: int
    side: int
    classes: int
    seed: int

    def __post_init__(self) -> None:
        if self.side < _SMALLEST or self.channels < 1 or self.classes < 2:
            raise MethodError(
                f"encoding: {self.channels} x {self.side} x {self.side} pictures and "
                f"{self.classes} classes; give pictures of at least {_SMALLEST} pixels a side and "
                "2 classes"
            )

    @property
    def strides(self) -> tuple[int, int, int]:
        """Return the convolutions' strides: 2, 2, 1 for 32 pixels, 4, 2, 1 from 64, 1 for 8."""
        first = min(4, max(1, self.side // 16))
        return (first, 2 if self.side >= 16 else 1, 1)

    @property
    def padding(self) -> int:
        """Return the pixels around a picture: 2, or 1 for 84 pixels as released."""
        return 1 if self.side == 84 else 2

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor, and so of a set of gradients."""
        kernels = [self.channels, CHANNELS, CHANNELS]
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, inputs in enumerate(kernels, start=1):
            shapes[f"{layer}.weight"] = (CHANNELS, inputs, SIDE, SIDE)
            shapes[f"{layer}.bias"] = (CHANNELS,)
        shapes[f"{LAYERS}.weight"] = (self.classes, self._features)
        shapes[f"{LAYERS}.bias"] = (self.classes,)
        return shapes

    @property
    def numbers(self) -> int:
        """Return how many numbers a set of gradients has: 85,036 for 32 pixels, 100 classes."""
        return sum(prod(shape) for shape in self.shapes.values())

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Return Gamma's own numbers, float32."""
        return {
            name: torch.from_numpy(
                uniform(stream_key(self.seed, "encoding", name), prod(shape), _BOUND)
            ).reshape(shape)
            for name, shape in self.shapes.items()
        }

    def tensors_on(self, device: torch.device, kind: torch.dtype) -> dict[str, Tensor]:
        """Return the same on a device and of a type, not to be changed."""
        return _on(self, device, kind)

    def gradients(self, pictures: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the gradients (rows, ...) of pictures (rows, c, s, s) with labels (rows,).

        They can be differentiated with respect to the pictures.
        """
        found: dict[str, Tensor] = {}
        for layer, slope in self.slopes(pictures, labels).items():
            shape = self.shapes[f"{layer}.weight"]
            found[f"{layer}.weight"] = (slope.sums @ slope.seen.mT).reshape(-1, *shape)
            found[f"{layer}.bias"] = slope.sums.sum(dim=2)
        return {name: found[name] for name in self.shapes}

    def slopes(self, pictures: Tensor, labels: Tensor) -> dict[int, LayerSlope]:
        """Return how the loss of each picture depends on every layer's sums, the last one first."""
        tensors, passed = self.tensors_on(pictures.device, pictures.dtype), []
        maps = pictures
        for layer, stride in enumerate(self.strides, start=1):
            seen = functional.unfold(maps, SIDE, padding=self.padding, stride=stride)
            kernel, bias = tensors[f"{layer}.weight"].flatten(1), tensors[f"{layer}.bias"]
            values = torch.sigmoid(kernel @ seen + bias.unsqueeze(1))
            passed.append((seen, values, maps.shape[-1]))
            maps = values.unflatten(2, (self._side_after(layer),) * 2)
        features, weight = maps.flatten(1), tensors[f"{LAYERS}.weight"]
        scores = functional.linear(features, weight, tensors[f"{LAYERS}.bias"])
        own = functional.one_hot(labels, self.classes).to(scores.dtype)
        sums = functional.softmax(scores, dim=1) - own
        found = {LAYERS: LayerSlope(features.unsqueeze(2), sums.unsqueeze(2))}
        above = sums @ weight
        for layer in range(LAYERS - 1, 0, -1):
            seen, values, side = passed[layer - 1]
            sums = above.view_as(values) * values * (1 - values)
            found[layer] = LayerSlope(seen, sums)
            if layer > 1:
                above = self._unfolded_back(layer, tensors[f"{layer}.weight"], sums, side)
        return found

    def scores(self, tensors: Mapping[str, Tensor], pictures: Tensor) -> Tensor:
        """Return Gamma's scores (rows, classes)."""
        values = pictures
        for layer, stride in enumerate(self.strides, start=1):
            weight, bias = tensors[f"{layer}.weight"], tensors[f"{layer}.bias"]
            values = functional.conv2d(values, weight, bias, stride, self.padding)
            values = torch.sigmoid(values)
        weight, bias = tensors[f"{LAYERS}.weight"], tensors[f"{LAYERS}.bias"]
        return functional.linear(values.flatten(1), weight, bias)

    def _unfolded_back(self, layer: int, kernel: Tensor, sums: Tensor, side: int) -> Tensor:
        """Return how the loss depends on the maps (rows, channels, side, side) below a layer."""
        windows = kernel.flatten(1).mT @ sums
        stride = self.strides[layer - 1]
        return functional.fold(windows, (side, side), SIDE, padding=self.padding, stride=stride)

    def _side_after(self, layers: int) -> int:
        """Return the pixels a side of the maps behind so many convolutions."""
        side = self.side
        for stride in self.strides[:layers]:
            side = (side + 2 * self.padding - SIDE) // stride + 1
        return side

    @property
    def _features(self) -> int:
        return CHANNELS * self._side_after(len(self.strides)) ** 2
