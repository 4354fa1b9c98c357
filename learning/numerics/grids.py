"""Where tensors of weights lie and what their integers stand for: what every exact sum needs.

A grid names the tensors, and gives each one a step, a power of two. `weights` counts steps from
zero, `differences` from the weights that were sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError, RangeError

Weights = Mapping[str, npt.NDArray[Any]]
Integers = npt.NDArray[np.int32]
Steps = npt.NDArray[np.float64]

Kind = Literal["float32", "int32"]

LARGEST = 2**31 - 1
"""Of the integers that a contribution holds."""
_TYPES = {"float32": np.dtype(np.float32), "int32": np.dtype(np.int32)}


@dataclass(frozen=True)
class Grid(ABC):
    """The tensors that are summed: their shapes, and the exponents of their steps.

    Tensors are also handled as one flat array (n,), one after the other in the order of their
    names.
    """

    shapes: Mapping[str, tuple[int, ...]]
    exponents: Mapping[str, int]

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each tensor lies in a flat array, by name, in order."""
        names = sorted(self.shapes)
        ends = list(accumulate(prod(self.shapes[name]) for name in names))
        return dict(zip(names, map(slice, [0, *ends], ends), strict=False))

    @cached_property
    def size(self) -> int:
        """Number of values of all tensors."""
        return sum(prod(shape) for shape in self.shapes.values())

    @cached_property
    def steps(self) -> npt.NDArray[np.float32]:
        """The step of every value of a flat array, (n,)."""
        steps = np.empty(self.size, np.float32)
        for name, place in self.places.items():
            steps[place] = 2.0 ** self.exponents[name]
        return steps

    @abstractmethod
    def weights_of(
        self, name: str, steps: Steps, part: slice | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the weights that `steps` of a tensor, in its shape, stand for, in float32.

        With `part` they are those of this part of the flat tensor alone.
        """

    @abstractmethod
    def check_steps(self, name: str, steps: npt.NDArray[Any]) -> None:
        """Raise `RangeError` where flat `steps` of a tensor stand for a variance below zero."""

    @cached_property
    def variances(self) -> dict[str, slice]:
        """Where the variances lie in a flat array."""
        return {name: place for name, place in self.places.items() if is_variance(name)}

    def check_flat(self, values: npt.NDArray[Any]) -> None:
        """Raise `RangeError` for a variance below zero in a flat array."""
        for name, place in self.variances.items():
            self.check_steps(name, values[place])

    def check(self, integers: Weights) -> None:
        """Refuse by name what is no contribution.

        Raises `NetworkError` for a tensor that is missing, foreign or of another shape or type,
        `RangeError` for a variance below zero.
        """
        foreign = sorted(set(integers) - set(self.shapes))
        if foreign:
            raise NetworkError(f"weights: {foreign[0]!r} is not on the grid; leave it out")
        for name in self.shapes:
            self.check_steps(name, self.found(integers, name, "int32").reshape(-1))

    def found(self, arrays: Weights, name: str, kind: Kind) -> npt.NDArray[Any]:
        """Return a tensor; raise `NetworkError` where it is missing or has another form."""
        if name not in arrays:
            raise NetworkError(f"weights: {name!r} is missing; give all tensors of the model")
        array = arrays[name]
        if array.shape != self.shapes[name] or array.dtype != _TYPES[kind]:
            raise NetworkError(
                f"weights: {name!r} is {array.dtype} {array.shape}; give {kind} {self.shapes[name]}"
            )
        return array


def is_variance(name: str) -> bool:
    """Whether a tensor holds variances of batch normalisation, which are never negative."""
    return name.rpartition(".")[2] == "running_var"


def refuse_negative(name: str, array: npt.NDArray[Any]) -> None:
    """Raise `RangeError` for a variance below zero."""
    if is_variance(name) and array.min(initial=0) < 0:
        raise RangeError(f"weights: {name!r} holds a variance of {array.min()}; it cannot be < 0")


def largest_magnitude(array: npt.NDArray[Any]) -> float:
    """Return the largest magnitude, NaN where there is one."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))
