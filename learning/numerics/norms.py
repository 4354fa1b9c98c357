"""Length of an update on its grid, and updates cut to a length: integers only, exact anywhere.

    d = q - r                       an answer's steps around those of what was sent, r = rint(theta)
    N^2 = sum_t 4^(e_t - e) |d_t|^2     an integer, in units of 4^e; e is the finest exponent
    s = floor(2^30 C / N)           of the longest length C that counts, as an integer root
    q' = r + sgn(d) floor(|d| s / 2^30)     no longer than C, and between r and q in every number

So no machine disagrees which answers are too long or what they count as, and the sum of the q' is
as exact as any other. Every tensor counts but those that are left out, which are shortened alike.
What is not counted is not bounded; so privacy counts everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import groupby
from math import isqrt, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.grids import Grid, Integers, Weights

Moved = npt.NDArray[np.int64]

_BLOCK = 1 << 15
_SHIFT = 30
_SHORT = 1 << 19
"""Magnitude up to which a block's squares are summed in float64 without rounding."""
_LOW = 17
"""Low bits of a longer number; the high ones are 16 at most."""


class UpdateNorm:
    """Lengths of answers on one grid, around the weights that were sent."""

    def __init__(
        self,
        grid: Grid,
        sent: Weights,
        *,
        steps_from_sent: bool,
        left_out: Collection[str] = (),
    ) -> None:
        """Take steps that count from the sent weights, or from zero; `left_out` have no length."""
        self.origin = np.zeros(0 if steps_from_sent else grid.size, np.int64)
        """What was sent, in steps (n,); empty where steps count from it."""
        for name, place in grid.places.items() if len(self.origin) else ():
            steps = np.ldexp(sent[name].reshape(-1).astype(np.float64), -grid.exponents[name])
            self.origin[place] = np.rint(steps)
        self._finest = min(grid.exponents.values(), default=0)
        self._runs = tuple(_runs(grid, left_out))

    def moved(self, values: Integers) -> Moved:
        """Return how far an answer, a flat array (n,), lies from what was sent, in steps."""
        moved = values.astype(np.int64)
        if len(self.origin):
            moved -= self.origin
        return moved

    def squared(self, moved: Moved) -> Fraction:
        """Return the squared length of a move (n,), exactly."""
        units = sum(
            square_sum(moved[run]) << 2 * (exponent - self._finest) for run, exponent in self._runs
        )
        return units * Fraction(4) ** self._finest

    def length(self, moved: Moved) -> float:
        """Return the length of a move (n,), rounded."""
        return sqrt(self.squared(moved))

    def is_within(self, values: Integers, most: float) -> bool:
        """Return whether an answer's move is no longer than `most`."""
        return self.squared(self.moved(values)) <= Fraction(most) ** 2

    def clipped(self, values: Integers, most: float) -> Integers:
        """Return an answer (n,) whose move is shortened to `most`; itself where it is no longer."""
        moved = self.moved(values)
        squared, allowed = self.squared(moved), Fraction(most) ** 2
        if squared <= allowed:
            return values
        ratio = allowed / squared
        scale = isqrt((ratio.numerator << 2 * _SHIFT) // ratio.denominator)
        shorter = np.abs(moved)
        shorter *= np.int64(scale)
        shorter >>= _SHIFT
        np.copyto(shorter, -shorter, where=moved < 0)
        if len(self.origin):
            shorter += self.origin
        return shorter.astype(np.int32)


def _runs(grid: Grid, left_out: Collection[str]) -> Iterator[tuple[slice, int]]:
    """Yield the parts of a flat array that count and have one step."""
    steps = {name: None if name in left_out else grid.exponents[name] for name in grid.places}
    for exponent, names in groupby(grid.places, steps.__getitem__):
        places = [grid.places[name] for name in names]
        if exponent is not None:
            yield slice(places[0].start, places[-1].stop), exponent


def square_sum(values: Moved) -> int:
    """Return the sum of squares of integers up to 2^32 (n,), exactly."""
    total = 0
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        if max(int(block.max()), -int(block.min())) <= _SHORT:
            total += _dot(block, block)
            continue
        high, low = block >> _LOW, block & ((1 << _LOW) - 1)
        total += _dot(high, high) << 2 * _LOW
        total += _dot(high, low) << _LOW + 1
        total += _dot(low, low)
    return total


def _dot(one: Moved, other: Moved) -> int:
    """Return the sum of products, none of whose partial sums reaches 2^53."""
    return int(np.dot(one.astype(np.float64), other.astype(np.float64)))
