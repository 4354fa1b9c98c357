"""Weights rounded to their grid, summed and measured on the accelerator that trained them.

The twin of `learning.numerics.weights` and `differences` for many answers at once: the same floats
give the same integers, bit for bit, and the same are refused. What the host needs of a stack comes
back in one copy from pinned memory: the bytes of every answer, whether it fits its grid, and how
far it lies from what was sent. The exact sum stays on the device until the round is over.

    rows     float32 (A, n)   all tensors of an answer behind one another, in the grid's order
    steps    int32 (A, n)     what is summed: S = sum_k n_k steps_k, in int64

Multiplying by a power of two is exact here as there, and both round halves to even. Distances are
floats that are added up in another order than NumPy's: their last bits may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.differences import BITS, OCTAVES, DifferenceGrid
from fleetledger.learning.numerics.grids import Grid, is_variance

_VALUES_AT_ONCE = 1 << 25
"""Of some answers: a few numbers of eight bytes for each."""
_MOST = 2 ** (BITS - 1) - 1


class Rounded(NamedTuple):
    """Answers of one copy back."""

    content: npt.NDArray[np.uint8]
    """(A, bytes): each as its form writes it, without a header."""
    fits: list[bool]
    """Whether an answer is one; of those that are none, nothing else holds."""
    distances: list[float]
    """The squared distance of each from the weights that were sent, without buffers."""
    steps: Tensor
    """int32 (A, n), on the device."""


class _Part(NamedTuple):
    """Some of the answers, on the device."""

    content: Tensor
    fits: Tensor
    distances: Tensor
    steps: Tensor


class RoundingThere:
    """Rounds the answers to one round on `device`, and adds them up there."""

    def __init__(self, grid: Grid, sent: Mapping[str, npt.NDArray[Any]], device: str) -> None:
        self._grid, self._places = grid, _Places.of(grid, sent, device)
        self._sum = torch.zeros(grid.size, dtype=torch.int64, device=device)

    def takes(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether tensors have the form of the grid's; others the host refuses by name."""
        found = ((weights.get(name), shape) for name, shape in self._grid.shapes.items())
        return all(
            one is not None and one.dtype == torch.float32 and tuple(one.shape) == tuple(shape)
            for one, shape in found
        )

    def rounded(self, answers: Sequence[Mapping[str, Tensor]]) -> Rounded:
        """Return the answers, weights by name that `takes` takes, as integers; at least one."""
        grid, count = self._grid, len(answers)
        with torch.no_grad():
            rows = torch.cat([one[name].reshape(-1) for one in answers for name in grid.places])
            some = rows.view(count, grid.size).split(max(1, _VALUES_AT_ONCE // grid.size))
            parts = map(self._part, some)
            content, fits, distances, steps = map(torch.cat, zip(*parts, strict=True))
            told = distances.view(torch.uint8), fits.view(torch.uint8), content.view(-1)
            here = brought_home(torch.cat(told)).numpy()
        squares, fitting, written = np.split(here, [8 * count, 9 * count])
        return Rounded(
            written.reshape(count, -1),
            fitting.astype(bool).tolist(),
            squares.view(np.float64).tolist(),
            steps,
        )

    def add(self, rounded: Rounded, shares: Sequence[int]) -> None:
        """Add answers, each so many times; one that is none, or does not count, 0 times."""
        times = torch.tensor(shares).unsqueeze(1).to(self._sum.device)
        for place in _blocks(self._grid.size, max(1, _VALUES_AT_ONCE // len(shares))):
            self._sum[place] += (rounded.steps[:, place] * times).sum(0)

    def sums(self) -> npt.NDArray[np.int64]:
        """Return the sum (n,) of what was added."""
        found: npt.NDArray[np.int64] = brought_home(self._sum).numpy().copy()
        return found

    def _part(self, rows: Tensor) -> _Part:
        places = self._places
        moves = isinstance(self._grid, DifferenceGrid)
        content, fits, steps = places.moved(rows) if moves else places.whole(rows)
        below = (rows < 0) & places.variance
        return _Part(content, fits & ~below.any(1), places.distances(steps), steps)


@dataclass(frozen=True, eq=False)
class _Places:
    """What is known of each of the n values, and of each of the T tensors, on the device."""

    places: Sequence[slice]
    step: Tensor
    """float32 (n,), as all but the last three: powers of two."""
    sent: Tensor
    variance: Tensor
    """bool (n,)."""
    measured: Tensor
    """The step where a distance is measured, else 0."""
    origin: Tensor
    """float64 (n,): where distances are measured from, in steps."""
    tensor: Tensor
    """int64 (n,): which tensor a value is of."""
    finest: Tensor
    """int64 (T,): the exponents of the steps."""

    @classmethod
    def of(cls, grid: Grid, sent: Mapping[str, npt.NDArray[Any]], device: str) -> _Places:
        """Return them: what was sent is copied there, and what is known of each tensor with it."""
        places = tuple(grid.places.values())
        values = np.concatenate([np.asarray(sent[name]).reshape(-1) for name in grid.places])
        known = [
            (grid.exponents[name], is_variance(name), not is_buffer(name), place.stop - place.start)
            for name, place in grid.places.items()
        ]
        table = np.array(known, np.int32).T.reshape(-1)
        bits = np.concatenate([values.astype(np.float32, copy=False).view(np.int32), table])
        there = torch.from_numpy(bits).to(device)
        two = there[: grid.size].view(torch.float32)
        finest, variance, measured, sizes = there[grid.size :].view(4, -1).long()
        tensor = torch.repeat_interleave(sizes, output_size=grid.size)
        one = _power(finest).to(torch.float32)[tensor]
        from_sent = isinstance(grid, DifferenceGrid)
        origin = torch.zeros_like(two, dtype=torch.float64) if from_sent else two.double() / one
        marks = (variance > 0)[tensor], one * measured[tensor]
        return cls(places, one, two, *marks, origin, tensor, finest)

    def whole(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return content, fits and steps of weights from zero, as `WeightGrid.flat` does."""
        steps = (rows * (1 / self.step)).round_()
        fits = (steps.amax(1) < 2.0**31) & (steps.amin(1) > -(2.0**31))  # not where one is NaN
        integers = steps.to(torch.int32)
        return integers.view(torch.uint8), fits, integers

    def moved(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same of how far weights have moved, as `DifferenceGrid` does."""
        sent = self.sent.double()
        moved = rows.double() - sent
        size = moved.abs()
        none = size.new_zeros(len(rows))
        largest = torch.stack(
            [size[:, one].amax(1) if one.stop > one.start else none for one in self.places], 1
        )
        fits = (largest <= _MOST * _power(self.finest + OCTAVES)).all(1)
        exponent = self._exponents(largest)
        each = exponent[:, self.tensor]
        steps = (moved * _power(-each)).round_()
        below = self.variance & (sent + steps * _power(each) < 0)
        values = (steps + below).to(torch.int16)
        parts = exponent.to(torch.int32).view(torch.uint8), values.view(torch.uint8)
        shifts = (each - self.finest[self.tensor]).to(torch.int32)
        return torch.cat(parts, 1), fits, values.to(torch.int32) << shifts

    def distances(self, steps: Tensor) -> Tensor:
        """Return the squared distance of each answer from what was sent, float64 (A,)."""
        apart = (steps.double() - self.origin) * self.measured
        return (apart * apart).sum(1)

    def _exponents(self, largest: Tensor) -> Tensor:
        """Return the exponent of each tensor's own steps, int64 (A, T), as `smallest_exponent`."""
        exponent = torch.frexp(largest).exponent.long() - (BITS - 1)
        exponent = torch.where(largest == 0, self.finest, exponent)
        exponent = torch.maximum(exponent, self.finest)
        exponent = torch.minimum(exponent, self.finest + OCTAVES)  # beyond, it does not fit
        return exponent + (torch.round(largest * _power(-exponent)) > _MOST)


def _power(exponent: Tensor) -> Tensor:
    """Return 2^e in float64, by its bits: no device rounds it."""
    return ((exponent + 1023) << 52).view(torch.float64)


def _blocks(size: int, width: int) -> Iterator[slice]:
    for start in range(0, size, width):
        yield slice(start, start + width)
