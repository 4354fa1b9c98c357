"""Updates of bounded length, for noise that hides any one of them: integers of one common step.

    x_k = (theta_k - theta) / 2^e                  all tensors of an update as one vector (n,)
    K   = floor(C / 2^e), 2^19 <= K < 2^20         the clip C in steps
    q_k = round(x_k min(1, (K - 1 - sqrt(n) / 2) / |x_k|))
    S   = sum_k q_k + noise                        integers: any order, streamed
    theta + S / m * 2^e                            the mean of m answers

Rounding moves a vector by sqrt(n) / 2 at most, so |q_k| <= K, and whoever takes an answer in checks
that in integers: leaving one device out moves the sum by at most K, its sensitivity, whatever that
device sends. Noise of deviation z K makes the sum a Gaussian mechanism of multiplier z. It is
rounded to integers, which is post-processing: the sum without it is integers already.

Dwork and Roth, "The Algorithmic Foundations of Differential Privacy", 2014, appendix A; McMahan,
Ramage, Talwar and Zhang, "Learning Differentially Private Recurrent Language Models", ICLR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, isqrt, sqrt

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.exact_sum import smallest_exponent
from fleetledger.learning.numerics.grids import (
    Grid,
    Integers,
    Steps,
    Weights,
    is_variance,
    largest_magnitude,
)
from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.learning.numerics.norms import square_sum
from fleetledger.learning.privacy.accounting import MOST_NOISE

Steps64 = npt.NDArray[np.int64]

_BITS = 20
_EXPONENTS = (-96, 96)


@dataclass(frozen=True, eq=False)
class ClippedGrid(Grid):
    """The grid whose one step is fixed by the clip, counted from the weights that were sent."""

    sent: Weights
    bound: int
    """K: the largest length of an update, in steps."""

    @classmethod
    def around(cls, broadcast: Weights, clip: float) -> Self:
        """Return the grid for updates of `broadcast`, float32 arrays by name, up to length `clip`.

        Raises `RangeError` for a clip that is not positive and finite.
        """
        if not (isfinite(clip) and clip > 0):
            raise RangeError(f"clip: {clip} is no length; give a positive number")
        exponent = smallest_exponent(clip, _BITS + 1, *_EXPONENTS)
        real = {name: array for name, array in broadcast.items() if array.dtype.kind == "f"}
        shapes = {name: array.shape for name, array in real.items()}
        return cls(shapes, dict.fromkeys(shapes, exponent), real, floor(clip * 2.0**-exponent))

    @property
    def exponent(self) -> int:
        """The exponent of the step; 0 where there is no tensor."""
        return next(iter(self.exponents.values()), 0)

    def clipped(self, weights: Weights) -> Integers:
        """Return how far weights (float32) have moved, at most `bound` long, as a flat array (n,).

        Raises `NetworkError` for a tensor that is missing or has another shape or type, and
        `RangeError` for NaN and infinity.
        """
        moved = np.empty(self.size, np.float64)
        for name, place in self.places.items():
            array = self.found(weights, name, "float32").reshape(-1)
            np.subtract(array, self.sent[name].reshape(-1), out=moved[place], dtype=np.float64)
        moved = np.ldexp(moved, -self.exponent)
        length = float(np.sqrt(np.dot(moved, moved)))
        if not isfinite(length):
            raise RangeError("weights: they hold NaN or infinity; train with a lower rate")
        room = self.bound - 1 - sqrt(self.size) / 2
        if length > room:
            moved *= room / length
        integers: Integers = np.rint(moved, out=moved).astype(np.int32)
        return integers

    def check_length(self, values: Integers) -> None:
        """Raise `RangeError` where an update (n,) is longer than the clip; exact integers."""
        length = self.length(values)
        if length > self.bound:
            step = 2.0**self.exponent
            raise RangeError(
                f"update: its L2 norm is {length * step:.6g}, more than the clip "
                f"{self.bound * step:.6g}; clip it on the device"
            )

    def length(self, values: Integers) -> int:
        """Return the L2 norm in steps, rounded up; one above `bound` may be any that is."""
        if largest_magnitude(values) > self.bound:
            return int(largest_magnitude(values))
        squares = square_sum(values.astype(np.int64))
        return isqrt(squares - 1) + 1 if squares else 0

    def noise(self, seed: bytes, deviation: float) -> Steps64:
        """Return rounded Gaussian noise (n,) of so many steps; the same for the same seed.

        Raises `RangeError` for more than `MOST_NOISE`, where an update might leave int32.
        """
        if not 0 <= deviation <= MOST_NOISE * self.bound:
            raise RangeError(
                f"noise: its multiplier {deviation / self.bound:.4g}; give 0 to {MOST_NOISE:g}"
            )
        return np.rint(deviation * normal_noise(seed, self.size)).astype(np.int64)

    def weights_of(
        self, name: str, steps: Steps, part: slice | None = None
    ) -> npt.NDArray[np.float32]:
        """Return what was sent, moved by `steps` of a tensor; no variance falls below zero."""
        sent = self.sent[name] if part is None else self.sent[name].reshape(-1)[part]
        weights = sent + np.ldexp(steps, self.exponents[name])
        if is_variance(name):
            weights = np.maximum(weights, 0)
        return np.asarray(weights, np.float32)

    def check_steps(self, name: str, steps: npt.NDArray[np.generic]) -> None:
        """Refuse nothing: clipping and noise may take a variance below zero, the mean may not."""
