"""Ways to compute the convolutions of many agents, each with kernels of its own.

    alone      one agent after another, pictures channels last: what the loop does
    calls      one call for each agent and layer, all agents side by side
    vmapped    torch.func.vmap over the agents
    unfolded   patches as rows, and one batched product of matrices for a layer
    grouped    one grouped convolution for a layer, channels before pixels: what stacks do
    last       the same with channels last: what stacks do with pictures that come so, shaken ones

The layers of a ResNet without its shortcuts, each normalised by its batch, there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.stacked_maps import Window, convolved, together

Way = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""From pictures (A, n, 3, s, s) and kernels (A, o, c, 3, 3) to a number to differentiate."""


@dataclass(frozen=True)
class Size:
    """How many agents, and of what: pictures of a step, their side, and the network's widths."""

    agents: int
    pictures: int
    side: int
    widths: tuple[int, ...] = (16, 32, 64)

    def layers(self) -> list[tuple[int, int, int]]:
        """Return inputs, outputs and stride of each layer: a stem, and a block for each width."""
        found, inputs = [(3, self.widths[0], 1)], self.widths[0]
        for place, outputs in enumerate(self.widths):
            found += [(inputs, outputs, 2 if place else 1), (outputs, outputs, 1)]
            inputs = outputs
        return found

    def drawn(self) -> tuple[Tensor, list[Tensor]]:
        """Return pictures and kernels."""
        chance = torch.Generator().manual_seed(1)
        shape = (self.agents, self.pictures, 3, self.side, self.side)
        kernels = [
            0.05 * torch.randn(self.agents, outputs, inputs, 3, 3, generator=chance)
            for inputs, outputs, _ in self.layers()
        ]
        return torch.randn(shape, generator=chance), kernels


def ways(size: Size) -> Mapping[str, Way]:
    """Return all of them by name."""
    strides = [stride for *_, stride in size.layers()]
    return {
        "alone": lambda pictures, kernels: _alone(pictures, kernels, strides),
        "calls": lambda pictures, kernels: _calls(pictures, kernels, strides),
        "vmapped": lambda pictures, kernels: _vmapped(pictures, kernels, strides),
        "unfolded": lambda pictures, kernels: _unfolded(pictures, kernels, strides),
        "grouped": lambda pictures, kernels: _grouped(pictures, kernels, strides),
        "last": lambda pictures, kernels: _last(pictures, kernels, strides),
    }


def step(way: Way, pictures: Tensor, kernels: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient by each kernel."""
    leaves = [kernel.detach().requires_grad_() for kernel in kernels]
    return list(torch.autograd.grad(way(pictures, leaves), leaves))


def _alone(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    sums = []
    for agent, own in enumerate(pictures):
        values = own.contiguous(memory_format=torch.channels_last)
        for kernel, stride in zip(kernels, strides, strict=True):
            values = _normalised(functional.conv2d(values, kernel[agent], None, stride, 1))
        sums.append(values.square().mean())
    return torch.stack(sums).sum()


def _calls(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    values = [own.contiguous(memory_format=torch.channels_last) for own in pictures]
    for kernel, stride in zip(kernels, strides, strict=True):
        values = [
            _normalised(functional.conv2d(one, own, None, stride, 1))
            for one, own in zip(values, kernel, strict=True)
        ]
    return torch.stack([one.square().mean() for one in values]).sum()


def _vmapped(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    values = pictures
    for kernel, stride in zip(kernels, strides, strict=True):

        def one(maps: Tensor, own: Tensor, stride: int = stride) -> Tensor:
            return functional.conv2d(maps, own, None, stride, 1)

        values = _side_by_side(torch.func.vmap(one)(values, kernel))
    return values.square().mean() * len(pictures)


def _unfolded(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    values = pictures
    for kernel, stride in zip(kernels, strides, strict=True):
        agents, rows, side = *values.shape[:2], values.shape[-1] // stride
        patches = functional.unfold(values.flatten(0, 1), 3, 1, 1, stride)
        columns = patches.view(agents, rows, -1, side * side)
        made = torch.matmul(kernel.flatten(2).unsqueeze(1), columns)
        values = _side_by_side(made.unflatten(-1, (side, side)))
    return values.square().mean() * len(pictures)


def _grouped(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    values, agents = pictures.transpose(0, 1).flatten(1, 2), len(pictures)
    for kernel, stride in zip(kernels, strides, strict=True):
        made = functional.conv2d(values, kernel.flatten(0, 1), None, stride, 1, 1, agents)
        values = _normalised(made)
    return values.square().mean() * agents


def _last(pictures: Tensor, kernels: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    values = pictures.movedim(2, -1).contiguous().movedim(-1, 2)
    for kernel, stride in zip(kernels, strides, strict=True):
        values = _side_by_side(convolved(values, kernel, None, Window(stride, 1)))
    return values.square().mean() * len(pictures)


def _side_by_side(values: Tensor) -> Tensor:
    """Return maps (A, n, c, h, w), normalised as (n, A c, h, w)."""
    seen = _normalised(together(values))
    return seen.unflatten(1, (len(values), -1)).transpose(0, 1)


def _normalised(maps: Tensor) -> Tensor:
    gain = maps.new_ones(maps.shape[1])
    seen = functional.batch_norm(maps, None, None, gain, torch.zeros_like(gain), training=True)
    return torch.relu(seen)
