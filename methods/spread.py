"""How far the answers of a round lie apart: client drift, in one pass over them.

    drift = sqrt( sum_k w_k |theta_k - mean|^2 / W ) / |mean - theta|

The spread of the answers around their mean, relative to the step that the fleet takes from the
weights theta that it sent; 0 where all answer alike. Batch-norm statistics are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.networks.plan import is_buffer
from learning.numerics.grids import Grid, Integers
from methods.training import Partial

Arrays = Mapping[str, npt.NDArray[Any]]

_BLOCK = 1 << 15
"""Values handled at once: what they need stays in the cache."""


class Spread:
    """The sum of squared distances from the weights that were sent.

    One number of each answer is kept, and their sum is rounded once: it is the same for any order.
    """

    def __init__(self, grid: Grid, sent: Arrays, *, steps_from_sent: bool) -> None:
        """Begin with no answer; whether steps count from the sent weights, or from zero."""
        self._sent = {name: array for name, array in sent.items() if not is_buffer(name)}
        # The same numbers; small networks spare the conversion of every answer.
        kind = np.float64 if grid.size <= _BLOCK else np.float32
        self._steps = grid.steps.astype(kind, copy=False)
        self._from = np.zeros(grid.size, kind)
        for name, place in grid.places.items():
            self._from[place] = 0 if steps_from_sent else sent[name].reshape(-1)
        buffers = [place for name, place in grid.places.items() if is_buffer(name)]
        if buffers:
            self._steps = self._steps.copy()
        for place in buffers:  # zero steps from zero: no distance
            self._steps[place] = self._from[place] = 0
        self._apart = np.empty(min(_BLOCK, grid.size), np.float64)
        self._squares: list[float] = []
        self._weight = 0

    def add(self, values: Integers, weight: int) -> None:
        """Take in an answer, a flat array (n,) in steps of the grid."""
        distance = 0.0
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            steps = self._steps[block]
            apart = self._apart[: len(steps)]
            apart[:] = values[block]
            apart *= steps
            apart -= self._from[block]
            distance += _square(apart)
        self._squares.append(weight * distance)
        self._weight += weight

    def partial(self) -> Partial:
        """Return the answers' weight, and of each its squared distance times its weight."""
        return Partial((self._weight,), (np.array(self._squares, np.float64),))

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


def _square(difference: npt.NDArray[Any]) -> float:
    return float(np.dot(difference, difference))
