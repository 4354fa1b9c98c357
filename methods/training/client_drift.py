"""Client drift: the distance between answers of a round, in one pass over them.

    drift = sqrt( sum_k w_k |theta_k - mean|^2 / W ) / |mean - theta|

The spread of the answers around their mean, relative to the step that the fleet takes from the
weights theta that it sent; 0 where all answer alike. Batch-norm statistics are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.grids import Grid
from fleetledger.methods.training.exchange import Partial

Arrays = Mapping[str, npt.NDArray[Any]]

_BLOCK = 1 << 14
"""Values handled at once: what they need stays in the cache."""


class SpreadBlock(NamedTuple):
    """A block of the flat array."""

    place: slice
    step: float | None
    """The step of all its values; None where they are of several tensors."""


class Spread:
    """The sum of squared distances from the weights that were sent.

    One number of each answer is kept, and their sum is rounded once: it is the same for any order.
    """

    def __init__(self, grid: Grid, sent: Arrays, *, steps_from_sent: bool) -> None:
        """Begin with no answer; whether steps count from the sent weights, or from zero."""
        self._sent = {name: array for name, array in sent.items() if not is_buffer(name)}
        # In steps, which are powers of two: as exact as the numbers themselves.
        self._from = np.empty(0 if steps_from_sent else grid.size, np.float64)
        if not steps_from_sent:
            for name, place in grid.places.items():
                values = sent[name].reshape(-1)
                np.divide(values, _step(grid, name), out=self._from[place], dtype=np.float64)
        # Small networks spare the conversion of every answer.
        self._steps = grid.steps.astype(np.float64 if grid.size <= _BLOCK else np.float32)
        for name, place in grid.places.items():
            if is_buffer(name):  # steps of no length: no distance
                self._steps[place] = 0
        self.blocks = _blocks(grid)
        """All of the flat array, in order."""
        self._squares: list[float] = []
        self._weight = 0

    def squares(self, block: SpreadBlock, rows: npt.NDArray[np.float64]) -> list[float]:
        """Return the squared distance of each row (k, b): answers in steps, within one block.

        The rows are changed.
        """
        if block.step == 0:
            return [0.0] * len(rows)
        if len(self._from):
            rows -= self._from[block.place]
        if block.step is None:
            rows *= self._steps[block.place]
            return [_square(row) for row in rows]
        return [_square(row) * block.step * block.step for row in rows]

    def add(self, distance: float, weight: int) -> None:
        """Take in an answer by its squared distance, which is the sum over all blocks in order."""
        self._squares.append(weight * distance)
        self._weight += weight

    def partial(self) -> Partial:
        """Return the answers' weight, and of each its squared distance times its weight."""
        return spread_partial(self._weight, self._squares)

    def join(self, other: Partial) -> None:
        """Take in the answers of another spread around the same weights."""
        (weight,), (squares,) = other.numbers, other.arrays
        self._squares.extend(squares.tolist())
        self._weight += weight

    def relative_to(self, mean: Arrays) -> float:
        """Return the drift around `mean`."""
        step = sum(_square((mean[name] - sent).reshape(-1)) for name, sent in self._sent.items())
        apart = fsum(self._squares) / self._weight - step
        return sqrt(max(0.0, apart) / step) if step > 0 else 0.0


def spread_partial(weight: int, squares: Sequence[float]) -> Partial:
    """Return answers' weight, and of each its squared distance times its weight."""
    return Partial((weight,), (np.array(squares, np.float64),))


def _step(grid: Grid, name: str) -> float:
    """Return the step of a tensor."""
    return float(2.0 ** grid.exponents[name])


def _blocks(grid: Grid) -> tuple[SpreadBlock, ...]:
    steps = [0.0 if is_buffer(name) else _step(grid, name) for name in grid.places]
    ends = [place.stop for place in grid.places.values()]
    parts = []
    for start in range(0, grid.size, _BLOCK):
        end = min(start + _BLOCK, grid.size)
        first, last = bisect_right(ends, start), bisect_left(ends, end)
        of_one = len(set(steps[first : last + 1])) == 1
        parts.append(SpreadBlock(slice(start, end), steps[first] if of_one else None))
    return tuple(parts)


def _square(difference: npt.NDArray[Any]) -> float:
    return float(np.dot(difference, difference))
