"""What a term over pixels may look at in a step, and parts that terms share, made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from torch import Tensor

from learning.networks.torch_layers import Tensors
from learning.training.work import Tree

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DenseOutputs:
    """What a segmentation network makes of a batch of pictures."""

    maps: tuple[Tensor, ...]
    """Feature maps (B, c, h', w'): after each residual group, the last of which is the encoder's
    output, then after the head's pyramid."""
    small_logits: Tensor
    """(B, C, h', w'), before they are brought to the pictures' size."""
    logits: Tensor
    """(B, C, h, w)."""


class Part(Hashable, Protocol[T_co]):
    """A value that says how to make something of a step; equal ones make the same."""

    def __call__(self, step: PixelStep) -> T_co:
        """Return what is made."""
        ...


@dataclass(frozen=True, eq=False)
class PixelStep:
    """One step: what the network made, the masks' labels, and the work's parts by name."""

    outputs: DenseOutputs
    labels: Tensor
    """(B, h, w), int64, as the device's masks show them."""
    frozen: Tree
    extras: Tensors
    use: Callable[[str], DenseOutputs]
    """From the name of a frozen model to what it makes of the batch, without gradient."""
    _made: dict[Any, Any] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        """C: background and all classes."""
        return int(self.outputs.logits.shape[1])

    def teacher(self, name: str) -> DenseOutputs:
        """Return what the frozen model of that name makes of the batch, computed once."""
        if name not in self._made:
            self._made[name] = self.use(name)
        made: DenseOutputs = self._made[name]
        return made

    def once(self, part: Part[T]) -> T:
        """Return what `part` makes of this step, computed once for all terms that name it."""
        if part not in self._made:
            self._made[part] = part(self)
        made: T = self._made[part]
        return made
