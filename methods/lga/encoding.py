"""The gradient encoding network Gamma, and what a device makes with it of its prototypes.

LGA, section "prototype gradient communication": a fixed random network ("LeNet-4") whose gradients
at a perturbed picture, softmax cross-entropy with the picture's own class, are all that a proxy
gets of it. Three 5 x 5 convolutions with 12 channels and a linear layer, sigmoids between them, all
numbers uniform in (-0.5, 0.5). The paper's proxy sends Gamma to every device; here everybody makes
it from its seed, equal on every machine, so that it costs no byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import torch
from torch import Tensor
from torch.nn import functional

from learning.networks.conversion import copied_together
from learning.networks.plan import uniform
from learning.networks.seeding import stream_key
from methods.errors import MethodError

Gradients = Mapping[str, Tensor]
"""Of one picture, or (rows, ...) of several."""

CHANNELS = 12
SIDE = 5
LAYERS = 4
_BOUND = 0.5
_SMALLEST = 4


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

    def gradients(self, pictures: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the gradients (rows, ...) of pictures (rows, c, s, s) with labels (rows,).

        They can be differentiated with respect to the pictures.
        """
        kind = pictures.dtype
        tensors = _on(self, pictures.device, kind)
        each = torch.func.vmap(torch.func.grad(self._loss), in_dims=(None, 0, 0))
        found: dict[str, Tensor] = each(tensors, pictures, labels)
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

    def _loss(self, tensors: Mapping[str, Tensor], picture: Tensor, label: Tensor) -> Tensor:
        scores = self.scores(tensors, picture.unsqueeze(0))
        return functional.cross_entropy(scores, label.unsqueeze(0))

    @property
    def _features(self) -> int:
        side = self.side
        for stride in self.strides:
            side = (side + 2 * self.padding - SIDE) // stride + 1
        return CHANNELS * side * side
