"""A body that anybody wrote: a torch module, made by a factory for one shape of inputs.

    factory(shape, **options) -> torch.nn.Module       from inputs (n, *shape) to features (n, d)

Its tensors are named as in the module's state, behind `body.`, since a head's begin with `head.`.
They are of three kinds:

| in the module | here |
| --- | --- |
| parameters | trained, averaged, sent |
| float buffers of its state; parameters that take no gradient | follow the data: averaged, sent |
| integer buffers, those outside the state or not finite | stay as the factory makes them |

Nothing here imports torch before somebody asks for a width or a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.module_source import PREFIX, ModuleSource
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.runtime.pip_command import pip_install

if TYPE_CHECKING:
    from fleetledger.learning.networks.torch_modules import Description


def of_body(name: str) -> bool:
    """Return whether a network's tensor of that name is a module's."""
    return name.startswith(PREFIX)


@dataclass(frozen=True)
class FactoryTensor(TensorPlan):
    """A tensor whose first values are the factory's."""

    body: ModuleBody | None = field(default=None, repr=False)

    def initial(self, seed: int) -> npt.NDArray[np.float32]:
        """Return what the factory draws, with torch's generator begun from `seed`."""
        from fleetledger.learning.networks.torch_modules import first_values  # noqa: PLC0415 - torch

        assert self.body is not None, "a factory made it"
        values: npt.NDArray[np.float32] = first_values(self.body, seed)[self.name].copy()
        return values


@dataclass(frozen=True)
class ModuleBody(ModuleSource):
    """The module of a factory as a network's body."""

    @property
    def width(self) -> int:
        """Number of features d, found by a dry run; raises `NetworkError` as `described` does."""
        return self._described.width

    @property
    def stackable(self) -> bool:
        """Whether torch can compute many agents' copies at once, found by a try."""
        from fleetledger.learning.networks.stacked_modules import alone_because  # noqa: PLC0415 - torch

        return alone_because(self) is None

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors in the order of the module's state."""
        names = [*self._described.tensors]
        return [FactoryTensor(one.name, one.shape, body=self) for one in names]

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing: what takes no gradient is sent with the others."""
        return ()

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the module's output (..., n, width)."""
        return layers.module(self, inputs)

    @property
    def _described(self) -> Description:
        try:
            from fleetledger.learning.networks.torch_modules import described  # noqa: PLC0415 - torch
        except ImportError as error:
            raise NetworkError(
                f"network: {self.name!r} is a torch module, and torch cannot be imported here "
                f"({error}); {pip_install('train')}, or take a network of the package"
            ) from error
        return described(self)
