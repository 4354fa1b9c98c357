"""Weights in 16 bits: how far each has moved from what was sent, in steps of the answer's own.

    d_k = round((theta_k - theta) / 2^e_k)       int16; one e_k for each tensor of each answer
    e <= e_k <= e + 16                           e: the exponent of the int32 form (`weights`)
    S = sum_k n_k d_k 2^(e_k - e)                integers: any order, streamed, undone
    theta + S / sum_k n_k * 2^e                  the mean

What was sent fixes the range of exponents, so S is counted in the finest step that any answer may
have, and each d_k 2^(e_k - e) is an int32 again: the limits that `weights.WeightSum` proves hold as
they are. A tensor that has moved by less than 2^15 of the finest steps loses nothing against the
int32 form; another is rounded by at most a 32,767th of its own largest move. Weights themselves
would not do: 16 bits of their range are coarser than what a round moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import NetworkError, RangeError
from fleetledger.learning.numerics.exact_sum import smallest_exponent
from fleetledger.learning.numerics.grids import (
    Grid,
    Integers,
    Steps,
    Weights,
    is_variance,
    largest_magnitude,
    refuse_negative,
)
from fleetledger.learning.numerics.weights import WeightGrid

OCTAVES = 16
"""By how many powers of two an answer's step may be coarser than the finest."""
BITS = 16

_LARGEST = 2 ** (BITS - 1) - 1


@dataclass(frozen=True, eq=False)
class Differences:
    """An answer: steps of all tensors as one flat array, and a step for each tensor."""

    exponents: npt.NDArray[np.int32]
    """(tensors,), in the order of their names."""
    values: npt.NDArray[np.int16]
    """(n,)."""


@dataclass(frozen=True, eq=False)
class DifferenceGrid(Grid):
    """The grid whose steps are counted from the weights that were sent."""

    sent: Weights

    @classmethod
    def around(cls, broadcast: Weights) -> Self:
        """Return the grid for models trained from `broadcast`, float32 arrays by name.

        Raises `RangeError` for a tensor that is not finite.
        """
        finest = WeightGrid.around(broadcast)
        return cls(finest.shapes, finest.exponents, broadcast)

    def encode(self, weights: Weights) -> Differences:
        """Return how far the weights (float32) have moved, at most half an own step away.

        A variance that this would bring below zero is rounded up. Raises `NetworkError` for a
        tensor that is missing or has another shape or type, `RangeError` for NaN, infinity, a
        variance below zero, and a move that even the coarsest steps do not hold.
        """
        exponents = np.empty(len(self.places), np.int32)
        values = np.empty(self.size, np.int16)
        for number, (name, place) in enumerate(self.places.items()):
            array = self.found(weights, name, "float32").reshape(-1)
            refuse_negative(name, array)
            moved = array.astype(np.float64) - self._origin(name)
            exponent = self._own_exponent(name, largest_magnitude(moved))
            exponents[number], values[place] = exponent, self._rounded(name, moved, exponent)
        return Differences(exponents, values)

    def expand(self, differences: Differences) -> Integers:
        """Return an answer in the finest steps, a flat array (n,) that a `WeightSum` adds.

        Raises `NetworkError` for another number of tensors or values, `RangeError` for an exponent
        out of its range and a variance below zero.
        """
        self._check_form(differences)
        steps = differences.values.astype(np.int32)
        for exponent, (name, place) in zip(differences.exponents, self.places.items(), strict=True):
            shift = int(exponent) - self.exponents[name]
            if not 0 <= shift <= OCTAVES:
                raise RangeError(
                    f"weights: {name!r} has steps of 2^{exponent}; give 2^{self.exponents[name]} "
                    f"to 2^{self.exponents[name] + OCTAVES}"
                )
            steps[place] <<= shift
        self.check_flat(steps)
        return steps

    def decode(self, differences: Differences) -> dict[str, npt.NDArray[np.float32]]:
        """Return the weights that an answer stands for, rounded to float32; raises as `expand`."""
        steps = self.expand(differences).astype(np.float64)
        return {
            name: self.weights_of(name, steps[place].reshape(self.shapes[name]))
            for name, place in self.places.items()
        }

    def weights_of(
        self, name: str, steps: Steps, part: slice | None = None
    ) -> npt.NDArray[np.float32]:
        """Return what was sent, moved by `steps` of a tensor, rounded to float32 once."""
        sent = self.sent[name] if part is None else self.sent[name].reshape(-1)[part]
        weights = sent + np.ldexp(steps, self.exponents[name])
        if is_variance(name):  # the exact mean is not below zero, but its quotient is rounded
            weights = np.maximum(weights, 0)
        return np.asarray(weights, np.float32)

    def check_steps(self, name: str, steps: npt.NDArray[Any]) -> None:
        """Raise `RangeError` where steps take a variance below zero."""
        if is_variance(name):
            moved = np.ldexp(steps.astype(np.float64), self.exponents[name])
            refuse_negative(name, self._origin(name) + moved)

    def _origin(self, name: str) -> Steps:
        return self.sent[name].reshape(-1).astype(np.float64)

    def _own_exponent(self, name: str, largest: float) -> int:
        finest = self.exponents[name]
        most = _LARGEST * 2.0 ** (finest + OCTAVES)
        if not largest <= most:
            raise RangeError(
                f"weights: {name!r} has moved by {largest:.4g}, more than {most:.4g}; "
                "train with a lower rate"
            )
        return smallest_exponent(largest, BITS, finest, finest + OCTAVES)

    def _rounded(self, name: str, moved: Steps, exponent: int) -> Steps:
        steps = np.rint(np.ldexp(moved, -exponent))
        if is_variance(name):
            steps[self._origin(name) + np.ldexp(steps, exponent) < 0] += 1
        return steps

    def _check_form(self, differences: Differences) -> None:
        for what, array, kind, count in (
            ("exponents", differences.exponents, np.int32, len(self.places)),
            ("values", differences.values, np.int16, self.size),
        ):
            if array.shape != (count,) or array.dtype != kind:
                raise NetworkError(
                    f"weights: {what} are {array.dtype} {array.shape}; "
                    f"give {np.dtype(kind)} ({count},)"
                )
