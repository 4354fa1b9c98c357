"""What a term over pixels may look at in a step, and parts that terms share, made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from torch import Tensor

from fleetledger.learning.networks.segmentation.torch_layers import DenseOutputs
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.work import Tree

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class StepPart(Hashable, Protocol[T_co]):
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

    def once(self, part: StepPart[T]) -> T:
        """Return what `part` makes of this step, computed once for all terms that name it."""
        if part not in self._made:
            self._made[part] = part(self)
        made: T = self._made[part]
        return made
