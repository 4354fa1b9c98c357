"""Sums without rounding: integers times one power of two per array.

Addition of such arrays is associative and commutative, subtraction undoes it, and no machine can
disagree about the result. Floating-point numbers enter once, where a contribution is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.exactness import INT64_LARGEST

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScaledIntegers:
    """The numbers `values * 2^exponent`; `values` is int64 of any shape."""

    values: Integers
    exponent: int = 0

    @classmethod
    def rounded(cls, numbers: Floats, exponent: int, bits: int) -> Self:
        """Return `numbers` rounded to multiples of 2^exponent (half to even).

        Raises `RangeError` when a rounded value does not fit `bits` signed bits; nothing is
        clipped.
        """
        scaled = np.rint(np.ldexp(numbers, -exponent))
        limit = 2 ** (bits - 1) - 1
        largest = np.abs(scaled).max(initial=0.0)
        if not largest <= limit:
            raise RangeError(
                f"values: up to {largest:.4g} steps of 2^{exponent} do not fit {bits} bits; "
                "use a coarser step"
            )
        return cls(scaled.astype(np.int64), exponent)

    @property
    def largest(self) -> int:
        """The largest magnitude of the integers."""
        if not self.values.size:
            return 0
        return max(int(self.values.max()), -int(self.values.min()))

    def at(self, exponent: int) -> ScaledIntegers:
        """Return the same numbers in steps of 2^exponent, which must not be coarser.

        Raises `RangeError` when the step is coarser or an integer would leave int64.
        """
        shift = self.exponent - exponent
        if shift == 0:
            return self
        if shift < 0:
            raise RangeError(
                f"exponent: steps of 2^{self.exponent} are finer than 2^{exponent}; "
                "a coarser step would round"
            )
        if self.largest << min(shift, 64) > INT64_LARGEST:
            raise RangeError(
                f"values: {self.largest} steps of 2^{self.exponent} leave int64 in steps of "
                f"2^{exponent}; narrow the range of exponents"
            )
        return ScaledIntegers(self.values << np.int64(min(shift, 63)), exponent)

    def __neg__(self) -> ScaledIntegers:
        return ScaledIntegers(-self.values, self.exponent)

    def __add__(self, other: ScaledIntegers) -> ScaledIntegers:
        """Return the exact sum in the finer of both steps; raise `RangeError` on overflow."""
        exponent = min(self.exponent, other.exponent)
        one, two = self.at(exponent), other.at(exponent)
        _check_sum(one, two)
        return ScaledIntegers(one.values + two.values, exponent)

    def add(self, other: ScaledIntegers) -> None:
        """Become the exact sum in the memory of `self`; the other's step must not be finer.

        Raises `RangeError` for such a step and on overflow; then nothing was added.
        """
        two = other.at(self.exponent)
        _check_sum(self, two)
        np.add(self.values, two.values, out=self.values)

    def __sub__(self, other: ScaledIntegers) -> ScaledIntegers:
        """Return the exact difference; raise `RangeError` on overflow."""
        return self + -other

    def to_float(self) -> Floats:
        """Return the numbers as float64: exact below 2^53 steps, else rounded to nearest even."""
        numbers: Floats = self.values.astype(np.float64)
        return np.ldexp(numbers, self.exponent, out=numbers) if self.exponent else numbers


def _check_sum(one: ScaledIntegers, two: ScaledIntegers) -> None:
    if one.largest + two.largest > INT64_LARGEST:
        raise RangeError(
            f"sum: {one.largest} + {two.largest} may leave int64; "
            "allow fewer parts, samples or bits"
        )


def smallest_exponent(largest: float, bits: int, lowest: int, highest: int) -> int:
    """Return the smallest exponent e in [lowest, highest] whose steps hold `largest`.

    That is, `largest / 2^e`, rounded, fits `bits` signed bits. Raises `RangeError` when even
    `highest` is too fine.
    """
    if largest == 0:
        return lowest
    limit = 2 ** (bits - 1) - 1
    exponent = max(lowest, int(np.frexp(largest)[1]) - (bits - 1))
    if np.rint(np.ldexp(largest, -exponent)) > limit:
        exponent += 1
    if not np.isfinite(largest) or exponent > highest:
        raise RangeError(
            f"values: up to {largest:.4g} need steps of 2^{exponent} at {bits} bits, but the "
            f"coarsest allowed is 2^{highest}; allow coarser steps or send fewer samples per part"
        )
    return exponent
