"""The tensors of a network: names, shapes, and the numbers that they begin with.

First weights come from a counter-based generator by (seed, name, element), so they are equal on
every machine and need no torch. All draws are uniform: an integer times a power of two times the
bound, one rounding, nothing that a library could compute differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.seeding import stream_key
from fleetledger.learning.numerics.counter_generator import random_words

Arrays = dict[str, npt.NDArray[np.float32]]

OTHER_BUFFER = "buffer"
"""Last part of the name of a buffer that is no statistic of batch normalisation."""
BUFFERS = ("running_mean", "running_var", OTHER_BUFFER)
"""Last parts of the names of tensors that follow the data and are not trained."""

_DRAWN_BITS = 24


@dataclass(frozen=True)
class TensorPlan:
    """A float32 tensor: its name, shape, and first values `centre` +- `bound`, uniform."""

    name: str
    shape: tuple[int, ...]
    bound: float = 0.0
    centre: float = 0.0

    def initial(self, seed: int) -> npt.NDArray[np.float32]:
        """Return the first values; they depend on seed, name and place alone."""
        if self.bound == 0:
            return np.full(self.shape, self.centre, np.float32)
        drawn = uniform(stream_key(seed, self.name), prod(self.shape), self.bound)
        return np.asarray(drawn.reshape(self.shape) + np.float32(self.centre), np.float32)


def is_buffer(name: str) -> bool:
    """Whether a tensor of that name is a buffer, such as statistics of batch normalisation."""
    return name.rpartition(".")[2] in BUFFERS


def uniform(key: int, count: int, bound: float) -> npt.NDArray[np.float32]:
    """Return `count` float32 numbers from U(-bound, bound), never an end, from the seed `key`.

    Number i is (2 k + 1 - 2^24) / 2^24 * bound, where k is the top 24 bits of word i.
    """
    drawn = (random_words(key, 0, count) >> np.uint64(64 - _DRAWN_BITS)).astype(np.int64)
    odd = (2 * drawn + 1 - (1 << _DRAWN_BITS)).astype(np.float32)
    return np.asarray(np.ldexp(odd, -_DRAWN_BITS) * np.float32(bound), np.float32)


def initial_arrays(plans: Iterable[TensorPlan], seed: int) -> Arrays:
    """Return the first values of all tensors, by name."""
    return {plan.name: plan.initial(seed) for plan in plans}


def linear_plan(name: str, inputs: int, outputs: int) -> list[TensorPlan]:
    """Return weight and bias of a linear layer before a ReLU: He et al. 2015, bias zero."""
    return [
        TensorPlan(f"{name}.weight", (outputs, inputs), sqrt(6 / inputs)),
        TensorPlan(f"{name}.bias", (outputs,)),
    ]


def convolution_plan(
    name: str, inputs: int, outputs: int, side: int, groups: int = 1
) -> list[TensorPlan]:
    """Return the kernel of a convolution without bias: He et al. 2015, by its outputs."""
    bound = sqrt(6 / (outputs // groups * side * side))
    return [TensorPlan(f"{name}.weight", (outputs, inputs // groups, side, side), bound)]


def normalisation_plan(name: str, width: int) -> list[TensorPlan]:
    """Return weight, bias and both buffers of a batch normalisation."""
    return [
        TensorPlan(f"{name}.weight", (width,), centre=1.0),
        TensorPlan(f"{name}.bias", (width,)),
        TensorPlan(f"{name}.running_mean", (width,)),
        TensorPlan(f"{name}.running_var", (width,), centre=1.0),
    ]
