"""Layers on the maps of many agents' pictures: (A, n, c, h, w), each agent with its own tensors.

    y_a = conv(x_a, K_a)  for all agents a  =  one grouped convolution, group a, of the channels of
    all agents behind one another: (n, A c, h, w) with kernels (A o, c, k, k)

and batch normalisation of A c channels is that of c channels of each agent. So a stack asks for as
many kernels as one agent does. Maps keep the axis of agents first, but lie in memory sample by
sample, channels before pixels or last, as the pictures had them. So going from one form to the
other and back moves nothing, but for the pictures themselves.

Where all agents share the tensors of a layer, as those of a teacher, their samples lie behind one
another instead: (A n, c, h, w).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Window:
    """How a kernel moves over a map."""

    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1


@dataclass(frozen=True, eq=False)
class MapNorm:
    """Tensors of a batch normalisation, (A, c) or (c,) for all agents."""

    mean: Tensor
    variance: Tensor
    gain: Tensor
    shift: Tensor
    epsilon: float

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, variance, gain and shift."""
        return self.mean, self.variance, self.gain, self.shift


def together(values: Tensor) -> Tensor:
    """Return maps (A, n, c, h, w) as (n, A c, h, w), channels last where they are last in it."""
    if values.shape[2] > 1 and values.stride(2) == 1:
        return values.permute(1, 3, 4, 0, 2).flatten(3, 4).permute(0, 3, 1, 2)
    return values.transpose(0, 1).flatten(1, 2)


def convolved(values: Tensor, kernel: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    """Return the convolution of maps by kernels (A, o, c, k, k), or (o, c, k, k) for all."""
    shape = window.stride, window.padding, window.dilation
    if kernel.dim() == 4:
        made = functional.conv2d(_in_a_row(values), kernel, bias, *shape, window.groups)
        return _out_of_a_row(made, len(values))
    agents = len(kernel)
    kernels, biases = kernel.flatten(0, 1), None if bias is None else bias.flatten()
    groups = agents * window.groups
    return _apart(functional.conv2d(together(values), kernels, biases, *shape, groups), agents)


def normalised_in_use(values: Tensor, norm: MapNorm) -> Tensor:
    """Return maps normalised by statistics that stay."""
    if all(tensor.dim() == 1 for tensor in norm.tensors()):
        return _out_of_a_row(_batch_norm(_in_a_row(values), norm.tensors(), norm), len(values))
    tensors = _of_each(norm.tensors(), values)
    return _apart(_batch_norm(together(values), tensors, norm), len(values))


def normalised_by_batch(values: Tensor, norm: MapNorm, momentum: float) -> Tensor:
    """Return maps in which no sample only pads, normalised by their own statistics.

    Mean and variance of `norm`, (A, c), follow them in place.
    """
    running = norm.mean.view(-1), norm.variance.view(-1)
    tensors = (*running, *_of_each((norm.gain, norm.shift), values))
    made = _batch_norm(together(values), tensors, norm, momentum)
    return _apart(made, len(values))


def max_pooled(values: Tensor, side: int, padding: int) -> Tensor:
    """Return the largest of `side` x `side` pixels around every second pixel."""
    pooled = functional.max_pool2d(together(values), side, stride=2, padding=padding)
    return _apart(pooled, len(values))


def _batch_norm(
    maps: Tensor, tensors: Sequence[Tensor], norm: MapNorm, momentum: float | None = None
) -> Tensor:
    """Return the normalisation of (n, C, h, w); with a momentum, by the batch."""
    measured = momentum is not None
    return functional.batch_norm(
        maps, *tensors, training=measured, momentum=momentum or 0.0, eps=norm.epsilon
    )


def _of_each(tensors: Sequence[Tensor], values: Tensor) -> list[Tensor]:
    """Return tensors (A, c) or (c,) as one of all agents' channels (A c,)."""
    shape = len(values), values.shape[2]
    return [tensor.expand(shape).reshape(-1) for tensor in tensors]


def _apart(maps: Tensor, agents: int) -> Tensor:
    """Return maps (n, A c, h, w) as (A, n, c, h, w)."""
    return maps.unflatten(1, (agents, -1)).transpose(0, 1)


def _in_a_row(values: Tensor) -> Tensor:
    """Return maps (A, n, c, h, w) as (A n, c, h, w)."""
    return values.flatten(0, 1)


def _out_of_a_row(maps: Tensor, agents: int) -> Tensor:
    """Return maps (A n, c, h, w) as (A, n, c, h, w)."""
    return maps.unflatten(0, (agents, -1))
