"""Noise on statistics: what a device adds, and what the coordinator must therefore expect.

Sums become S + q e with e ~ N(0, s^2) entry by entry, equations (63) and (64) of the paper: class
sums (and the Gram matrix of the exact form), counts, or both. This perturbs. It is no differential
privacy: nothing is clipped, and nothing is accounted for. Noise of differential privacy, where the
assignment asks for that, is `methods.statistics.private_moments`'s; it goes the same ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.learning.numerics.triangles import diagonal_index, triangle_size
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.private_moments import MomentNoise, bounded_counts
from fleetledger.methods.stsa.settings import StsaSettings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NoiseSizes:
    """Deviations in the numbers' own units; 0 where nothing is added."""

    sums: float
    gram: float
    counts: float

    @classmethod
    def of(cls, settings: StsaSettings) -> NoiseSizes:
        """Return the deviations that the settings ask for."""
        unit = 1 if settings.map == "gaussian" else settings.largest
        size = settings.noise_size
        on_sums = settings.noise in ("sums", "both")
        return cls(
            sums=size * unit if on_sums else 0.0,
            gram=size * unit**2 if on_sums else 0.0,
            counts=size if settings.noise in ("counts", "both") else 0.0,
        )


class NoiseSource:
    """Noise of one part, a function of the device's secret for it."""

    def __init__(
        self, settings: StsaSettings, secret: bytes, private: MomentNoise | None = None
    ) -> None:
        """Raise `MethodError` where noise is asked for and there is no secret."""
        self._sizes = NoiseSizes.of(settings)
        self._secret = secret
        self._private = private
        if settings.noise != "none" and not secret:
            raise MethodError("secret: noise needs one that only the device knows; give it")

    def on_sums(self, shape: tuple[int, int]) -> Floats | None:
        """Return noise for sums of this shape, or None where there is none."""
        if self._private is not None:
            return self._private.on_sums(shape).astype(np.float64)
        if not self._sizes.sums:
            return None
        drawn = normal_noise(self._secret + b"/sums", shape[0] * shape[1])
        return self._sizes.sums * drawn.reshape(shape)

    def on_gram(self, columns: int) -> Floats | None:
        """Return noise for the upper triangle of G, or None where there is none.

        It is the triangle of (E + E^T) / 2, so off the diagonal the deviation is smaller.
        """
        if self._private is not None:
            return self._private.on_triangle(columns).astype(np.float64)
        if not self._sizes.gram:
            return None
        drawn = normal_noise(self._secret + b"/gram", triangle_size(columns)) / sqrt(2)
        drawn[diagonal_index(columns)] *= sqrt(2)
        return self._sizes.gram * drawn

    def noisy(self, counts: Integers, minimum: int, most: int) -> Integers:
        """Return `counts` with noise, rounded: each at least `minimum`, together at most `most`."""
        if self._private is not None:
            return self._private.noisy(counts, most)
        if not self._sizes.counts:
            return counts
        drawn = normal_noise(self._secret + b"/counts", len(counts))
        noisy = counts + np.rint(self._sizes.counts * drawn).astype(np.int64)
        return bounded_counts(noisy, minimum, most)
