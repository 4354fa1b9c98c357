"""Sums of weights without rounding: each device's weights are integers, times its sample count.

A grid gives every tensor one step, a power of two, that device and coordinator both derive from the
model that was broadcast: four times its largest magnitude, at least 1, fits `bits` bits. A device
rounds its weights to steps once and sends int32. So with 24 bits a value may still grow to 2^7
times that range; beyond int32 it is refused by name, nothing is clipped.

    S = sum_k n_k q_k                   integers: any order, streamed, undone by subtraction
    theta = S / sum_k n_k * 2^e         equation (15) of FedHAF, FedAvg's weighted mean; n_k = 1
                                        for all gives the plain mean

Every n_k is bounded beforehand, so the sum is proven to fit int64. The mean of an equal sum is
equal to the last bit on every machine. Variances of batch normalisation are never negative, nor is
their mean. Tensors of integers are counters, which nobody averages: they are not on the grid.

Where many devices answer, all tensors are handled as one flat array (n,), one after the other in
the order of their names: `flat` gives what `encode` gives, `admit` and `add_rows` what `add` gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import NetworkError, RangeError
from fleetledger.learning.numerics.exact_sum import smallest_exponent
from fleetledger.learning.numerics.exactness import prove_sum
from fleetledger.learning.numerics.grids import (
    LARGEST,
    Grid,
    Integers,
    Steps,
    Weights,
    largest_magnitude,
    refuse_negative,
)

Steps64 = npt.NDArray[np.int64]

HEADROOM = 4.0
"""How many times the broadcast model's range the chosen bits hold."""
LEAST_RANGE = 1.0
"""The range of tensors that are zero or small: biases, adapters, means, before they have moved."""

_EXPONENTS = (-96, 96)
_FLOAT32 = np.dtype(np.float32)
_WIDEST = 2.0**80
_BLOCK = 1 << 15
"""Values handled at once: what they need stays in the cache."""
_EXACT_SAMPLES = 1 << 20
"""So many times 2^31 is 2^51."""
_UNIT = 1.5 * 2.0**52
"""The step of float64 is 1 here and up to 2^51 around it, so the bits of a sum with an integer are
these bits plus that integer: to read it so takes half as long as to convert it."""
_UNIT_BITS = np.float64(_UNIT).view(np.int64)


class WeightGrid(Grid):
    """The grid whose steps are counted from zero."""

    @classmethod
    def around(cls, broadcast: Weights, bits: int = 24) -> Self:
        """Return the grid for models trained from `broadcast`, float32 arrays by name.

        Raises `RangeError` for bits other than 24 to 32, and for a tensor that is not finite.
        """
        _check_bits(bits)
        real = {name: array for name, array in broadcast.items() if array.dtype.kind == "f"}
        exponents = {name: _exponent(name, array, bits) for name, array in real.items()}
        return cls({name: array.shape for name, array in real.items()}, exponents)

    @classmethod
    def covering(
        cls, shapes: Mapping[str, tuple[int, ...]], largest: float, bits: int = 32
    ) -> Self:
        """Return the grid for tensors whose magnitude is bounded by `largest`, such as importance.

        Raises `RangeError` for bits other than 24 to 32, and for no positive bound.
        """
        _check_bits(bits)
        if not 0 < largest < _WIDEST:
            raise RangeError(
                f"largest: {largest} is no bound of magnitudes; give a positive number"
            )
        exponent = smallest_exponent(largest, bits, *_EXPONENTS)
        return cls(dict(shapes), dict.fromkeys(shapes, exponent))

    def flat(self, weights: Weights, out: Integers | None = None) -> Integers:
        """Return what `encode` gives as one flat array (n,); raises as `encode` does.

        It is `out`, where that is given.
        """
        parts = self._flat_parts(weights)
        for name in self.variances:
            refuse_negative(name, weights[name])
        integers = np.empty(self.size, np.int32) if out is None else out
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            if self.size <= _BLOCK:
                # One block: a call for each tensor would take longer than what it does.
                joined = np.concatenate(parts or [np.empty(0, np.float32)])
                certain = _round_into(integers, joined, self._inverse_steps, joined)
            else:
                certain = self._round_blocks(integers, parts)
        if not certain:
            self.encode(weights)  # raises, where a tensor leaves int32
        return integers

    def _flat_parts(self, weights: Weights) -> list[npt.NDArray[np.float32]]:
        """Return all tensors flat, in order; raise `NetworkError` as `encode` does."""
        parts = []
        for name in self.places:
            array = weights.get(name)
            if array is None or array.shape != self.shapes[name] or array.dtype != _FLOAT32:
                array = self.found(weights, name, "float32")  # raises
            parts.append(array.reshape(-1))
        return parts

    @cached_property
    def _inverse_steps(self) -> npt.NDArray[np.float32]:
        """What makes steps of a flat array (n,): powers of two, as exact as a division."""
        inverse: npt.NDArray[np.float32] = np.divide(np.float32(1), self.steps)
        return inverse

    def _round_blocks(self, integers: Integers, parts: Sequence[npt.NDArray[np.float32]]) -> bool:
        """Write flat tensors in steps into one flat array; return whether all surely fit int32."""
        room, certain = np.empty(_BLOCK, np.float32), True
        for (name, where), array in zip(self.places.items(), parts, strict=True):
            scale, place = np.float32(2.0 ** -self.exponents[name]), integers[where]
            for start in range(0, len(array), _BLOCK):
                part = array[start : start + _BLOCK]
                rounded = place[start : start + _BLOCK]
                certain &= _round_into(rounded, part, scale, room[: len(part)])
        return certain

    def encode(self, weights: Weights) -> dict[str, Integers]:
        """Return the weights (float32) in steps: int32 arrays, at most half a step away.

        Tensors that are not on the grid are left out. Raises `NetworkError` where one is missing
        or has another shape or type, `RangeError` for NaN, infinity, a variance below zero, and
        what leaves int32.
        """
        return {
            name: self._rounded(name, self.found(weights, name, "float32")) for name in self.shapes
        }

    def decode(self, integers: Weights) -> dict[str, npt.NDArray[np.float32]]:
        """Return the weights that `integers` stand for, rounded to float32.

        Raises `NetworkError` and `RangeError` as `check` does.
        """
        self.check(integers)
        return {
            name: self.weights_of(name, integers[name].astype(np.float64)) for name in self.shapes
        }

    def weights_of(
        self, name: str, steps: Steps, part: slice | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the weights that steps of a tensor stand for, rounded to float32."""
        return np.asarray(np.ldexp(steps, self.exponents[name]), np.float32)

    def check_steps(self, name: str, steps: npt.NDArray[Any]) -> None:
        """Raise `RangeError` for a variance below zero."""
        refuse_negative(name, steps)

    def _rounded(self, name: str, array: npt.NDArray[np.float32]) -> Integers:
        exponent = self.exponents[name]
        refuse_negative(name, array)
        with np.errstate(over="ignore"):  # told below
            steps = np.rint(array * np.float32(2.0**-exponent))
        largest = largest_magnitude(steps)
        if not largest <= LARGEST:
            raise RangeError(
                f"weights: {name!r} holds {largest * 2.0**exponent:.4g}, more than "
                f"{LARGEST * 2.0**exponent:.4g}; train with a lower rate or use fewer bits"
            )
        integers: Integers = steps.astype(np.int32)
        return integers


@dataclass(frozen=True)
class SumLimits:
    """How much a sum may hold: so many contributions, each of so many samples at most."""

    devices: int
    samples: int = 1
    """1 for the plain mean."""


class WeightSum:
    """The running sum of contributions on one grid; memory does not grow with their number."""

    def __init__(self, grid: Grid, limits: SumLimits) -> None:
        """Raise `RangeError` unless the largest sum within the limits fits int64."""
        prove_sum("weights", LARGEST + 1, 0, limits.devices * limits.samples)  # int32 reaches -2^31
        self.grid = grid
        self.limits = limits
        self.devices = 0
        self.samples = 0
        self._flat = np.zeros(grid.size, np.int64)
        self.sums = {
            name: self._flat[place].reshape(grid.shapes[name])
            for name, place in grid.places.items()
        }

    def add(self, integers: Weights, samples: int = 1) -> None:
        """Add the weights of a device that trained on so many samples.

        Raises `NetworkError` and `RangeError` as `WeightGrid.check` does, and `RangeError` for
        more devices or samples than the limits allow; the sum then stays as it was.
        """
        self._refuse_more(samples)
        self._move(integers, samples, 1)

    def admit(self, values: Integers, samples: int = 1) -> None:
        """Count a device whose weights, a flat array (n,), `add_rows` adds block by block.

        Raises as `add` does; then nothing of it is to be added.
        """
        self._refuse_more(samples)
        if values.shape != self._flat.shape or values.dtype != np.int32:
            raise NetworkError(
                f"weights: {values.dtype} {values.shape}; give int32 {self._flat.shape}"
            )
        self.grid.check_flat(values)
        self.devices += 1
        self.samples += samples

    def add_rows(self, place: slice, rows: Steps, samples: Sequence[int]) -> None:
        """Add a block of the flat arrays of k devices that were admitted: their int32, (k, b).

        They are numbers of float64, as which they and their products are exact up to 2^53.
        """
        if sum(samples) <= _EXACT_SAMPLES:
            total = np.dot(np.array(samples, np.float64), rows)
            total += _UNIT
            bits = total.view(np.int64)
            bits -= _UNIT_BITS
            self._flat[place] += bits
            return
        for row, count in zip(rows, samples, strict=True):
            self._flat[place] += row.astype(np.int64) * np.int64(count)

    @property
    def flat(self) -> Steps64:
        """The sums as one flat array (n,), to be read."""
        return self._flat

    def join(self, flat: Steps64, devices: int, samples: int) -> None:
        """Add what another sum on the same grid has of so many devices and samples.

        Raises `NetworkError` for a sum of another size, `RangeError` for more than the limits
        allow; the sum then stays as it was.
        """
        if flat.shape != self._flat.shape or flat.dtype != np.int64:
            raise NetworkError(f"sums: {flat.dtype} {flat.shape}; give int64 {self._flat.shape}")
        if not devices <= samples <= devices * self.limits.samples:
            raise RangeError(
                f"samples: {samples}, devices: {devices}; each has 1 to {self.limits.samples}"
            )
        if self.devices + devices > self.limits.devices:
            raise RangeError(
                f"devices: {devices} beside {self.devices}; {self.limits.devices} are proven to fit"
            )
        self._flat += flat
        self.devices += devices
        self.samples += samples

    def subtract(self, integers: Weights, samples: int = 1) -> None:
        """Undo `add` of the same weights and samples: the sum is what it would be without them.

        Raises as `add` does, and `RangeError` where fewer were added.
        """
        if not self.devices or not 1 <= samples <= self.samples:
            raise RangeError(
                f"samples: {samples} of one device to subtract from {self.samples} of "
                f"{self.devices}; subtract only what was added"
            )
        self._move(integers, samples, -1)

    def mean(self, noise: Steps64 | None = None) -> dict[str, npt.NDArray[np.float32]]:
        """Return the mean of the contributions, weighted by their samples.

        `noise` (n,) is added to the sums before they are divided, and the sums stay as they are.
        Raises `RangeError` where nothing was added.
        """
        if not self.samples:
            raise RangeError("devices: the sum holds none; add a contribution first")
        flat, total = self._flat if noise is None else self._flat + noise, float(self.samples)
        return {
            name: self._divided(name, flat[place].reshape(self.grid.shapes[name]), total)
            for name, place in self.grid.places.items()
        }

    def _divided(
        self, name: str, sums: npt.NDArray[np.int64], total: float
    ) -> npt.NDArray[np.float32]:
        """Return the weights of sums over `total`; block by block, so that each stays in cache."""
        steps, mean = sums.reshape(-1), np.empty(sums.size, np.float32)
        for start in range(0, len(steps), _BLOCK):
            block = slice(start, start + _BLOCK)
            mean[block] = self.grid.weights_of(name, steps[block] / total, block)
        return mean.reshape(sums.shape)

    def _refuse_more(self, samples: int) -> None:
        if not 1 <= samples <= self.limits.samples:
            raise RangeError(f"samples: {samples}; give 1 to {self.limits.samples}")
        if self.devices == self.limits.devices:
            raise RangeError(
                f"devices: the sum holds {self.devices} already, all that was proven to fit"
            )

    def _move(self, integers: Weights, samples: int, sign: int) -> None:
        self.grid.check(integers)
        for name, sums in self.sums.items():
            _add_multiple(sums.reshape(-1), integers[name].reshape(-1), sign * samples)
        self.devices += sign
        self.samples += sign * samples


def _round_into(
    integers: Integers,
    values: npt.NDArray[np.float32],
    scale: np.float32 | npt.NDArray[np.float32],
    room: npt.NDArray[np.float32],
) -> bool:
    """Write a block of values times `scale`, rounded; return whether all surely fit int32.

    `room` takes the products.
    """
    steps = np.multiply(values, scale, out=room)
    # No less than the square of the largest; NaN where one is. It is rounded, hence the half.
    square = float(np.dot(steps, steps))
    integers[:] = np.rint(steps, out=steps)
    return square <= (LARGEST / 2) ** 2


def _check_bits(bits: int) -> None:
    if not 24 <= bits <= 32:
        raise RangeError(f"bits: {bits} is not allowed; give 24 to 32")


def _exponent(name: str, array: npt.NDArray[np.floating], bits: int) -> int:
    largest = largest_magnitude(array)
    if not largest < _WIDEST:
        raise RangeError(f"weights: {name!r} holds {largest:.4g}; training has diverged before")
    return smallest_exponent(max(LEAST_RANGE, HEADROOM * largest), bits, *_EXPONENTS)


def _add_multiple(sums: npt.NDArray[np.int64], values: Integers, factor: int) -> None:
    """Add `factor` times `values` to `sums` (both (n,)) in place, block by block."""
    if factor == 1:
        np.add(sums, values, out=sums)
        return
    product = np.empty(min(_BLOCK, len(values)), np.int64)
    for start in range(0, len(values), _BLOCK):
        part = values[start : start + _BLOCK]
        scaled = np.multiply(part, np.int64(factor), out=product[: len(part)])
        sums[start : start + len(part)] += scaled
