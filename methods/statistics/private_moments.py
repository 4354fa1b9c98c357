"""Statistics with differential privacy: clipped features, and noise on every number of a part.

A part is G = H^T H (upper triangle), P^T (a row for each class of the fleet) and the counts of
these classes. With |h| <= c by clipping, one image of class y changes it by h h^T, h and 1. Noise
has the deviations, for the multiplier z and shares w that add up to 1,

    G, off the diagonal  z c^2 / sqrt(2 w_G)      G, on it  z c^2 / sqrt(w_G)
    P                    z c / sqrt(w_P)          counts    z / sqrt(w_n)

In units of them the change has the length 1/z at most: sum over i < j of (h_i h_j)^2 and half of
the sum of h_i^4 make |h|^4 / 2 <= c^4 / 2. Where a device is protected, a part of at most n images
changes by n times as much, so deviations are n times as large. Where members of a cohort share the
noise of its sum, each adds deviations over the root of their number.

Class names are those that the fleet knows, whatever the device has; counts are noisy ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isqrt, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import PrivacyError
from fleetledger.learning.numerics.blas import one_blas_thread
from fleetledger.learning.numerics.possible_moments import MomentRoom, check_scatter
from fleetledger.learning.numerics.triangles import diagonal_index, symmetric, triangle_size
from fleetledger.learning.privacy.discrete_gaussian import LEAST_SHARE, discrete_gaussian
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.methods.statistics.words import IntegerMoments
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.cohorts import MOST_MEMBERS
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SHARES = {"gram": 0.5, "sums": 0.48, "counts": 0.02}
"""Of the budget: of 0.35 to 0.85 for G best or equal on digits. Counts weigh nothing in a head."""
_FAR = 10
"""Deviations that no draw ever reaches: one in 10^23."""
_RIDGE_OF_NOISE = 0.6
"""Ridge over the most negative eigenvalue of G; of 0.3 to 5 best or equal on digits."""


def largest_noise(deviation: float) -> int:
    """Return what noise of this deviation, rounded, never exceeds."""
    return ceil(_FAR * deviation + 0.5) if deviation else 0


@dataclass(frozen=True)
class MomentNoise:
    """Deviations of the noise of one part, and the square of the length of a clipped image."""

    gram: float
    """On the diagonal; off it less by the factor sqrt(2)."""
    sums: float
    counts: float
    squared_length: int

    @classmethod
    def of(cls, noise: Noise, columns: int, most: int) -> MomentNoise:
        """Return those of parts with `columns` features of at most `most` images."""
        squared = noise.clip**2 * columns
        unit = noise.multiplier * (most if noise.protects == "device" else 1)
        # Off the diagonal a share is less by sqrt(2).
        root, least = sqrt(noise.sharers), 2 * LEAST_SHARE if noise.sharers > 1 else 0.0
        return cls(
            max(least, unit * squared / sqrt(_SHARES["gram"]) / root),
            max(least, unit * sqrt(squared) / sqrt(_SHARES["sums"]) / root),
            max(least, unit / sqrt(_SHARES["counts"]) / root),
            squared,
        )

    def on_triangle(self, columns: int) -> Integers:
        """Return noise for the upper triangle of G (M(M+1)/2,)."""
        drawn = _drawn(triangle_size(columns), self.gram / sqrt(2))
        drawn[diagonal_index(columns)] = _drawn(columns, self.gram)
        return drawn

    def on_sums(self, shape: tuple[int, int]) -> Integers:
        """Return noise for class sums of this shape."""
        return _drawn(shape[0] * shape[1], self.sums).reshape(shape)

    def noisy(self, counts: Integers, most: int) -> Integers:
        """Return `counts` with noise, each at least 1 and together at most `most` and one each."""
        noisy = counts + _drawn(len(counts), self.counts)
        return bounded_counts(noisy, 1, most + len(counts))

    def check(self, moments: IntegerMoments, largest: int, most: int) -> None:
        """Raise `ContributionError` unless moments are those of samples, but for noise.

        Features are at most `largest`, samples at most `most`. Raises `MomentsError`, too.
        """
        for field, numbers, unit, noise in (
            ("sums", moments.sums, largest, self.sums),
            ("gram", moments.gram, largest**2, self.gram),
        ):
            bound, found = most * unit + largest_noise(noise), int(np.abs(numbers).max(initial=0))
            if found > bound:
                raise ContributionError(
                    f"{field}: {found}; {count_of(most, 'sample')} and noise give at most {bound}"
                )
        columns = moments.sums.shape[1]
        gram = symmetric(moments.gram.astype(np.float64), columns)
        room = self.room(columns, moments.counts, most)
        counts = np.maximum(moments.counts, 1).astype(np.float64)
        check_scatter(gram, moments.sums.astype(np.float64), counts, room)

    def room(self, columns: int, counts: Integers, most: int) -> MomentRoom:
        """Return how far noise puts moments from those of samples, in norms.

        Of a matrix of noise with deviation s, the norm exceeds s (sqrt M + sqrt C + 10) once in
        10^21 (Gaussian concentration), and of a symmetric one s (sqrt(2 M) + 10), with s that of
        the diagonal. A discrete draw is a rounded normal one but for less than 1 in s^2, and
        rounding moves an entry by half a step. Counts that reach the most of a part may have been
        cut back by what all of them had gained.
        """
        classes, lacking = len(counts), float(largest_noise(self.counts))
        if int(counts.sum()) == most + classes:
            lacking *= 1 + classes
        return MomentRoom(
            self.gram * (sqrt(2 * columns) + 10) + columns / 2,
            self.sums * (sqrt(columns) + sqrt(classes) + 10) + sqrt(columns * classes) / 2,
            lacking,
        )


def bounded_counts(counts: Integers, least: int, most: int) -> Integers:
    """Return counts of which each is at least `least`, and all together are at most `most`."""
    result = np.maximum(counts, least)
    while (excess := int(result.sum()) - most) > 0:
        index = int(result.argmax())
        result[index] -= min(excess, int(result[index]) - least)
    return result


def clipped(features: npt.NDArray[np.floating], squared_length: int) -> npt.NDArray[np.float32]:
    """Return integer features h (n, M), scaled down to |h|^2 <= `squared_length`, as integers.

    What is scaled is cut towards zero, so no number grows and the bound holds in integers.
    """
    rows = features.astype(np.float64)
    squares = np.square(rows).sum(axis=1, keepdims=True)
    scale = np.sqrt(squared_length / np.maximum(squares, squared_length))
    found = np.trunc(rows * scale)
    # A product a hair below an integer can round up to it; sums of squares are exact integers.
    for row in np.flatnonzero(np.square(found).sum(axis=1) > squared_length):
        length = isqrt(int(np.square(found[row]).sum())) + 1
        found[row] = np.trunc(found[row] * ((length - 1) / length))
    return np.asarray(found, np.float32)


def every_class(
    known: Sequence[ClassName], names: Sequence[ClassName], classes: Integers
) -> tuple[tuple[ClassName, ...], Integers]:
    """Return all `known` classes, sorted, and each sample's index among them (n,).

    `classes` has its index among `names`. Raises `MethodError` for a class that is not known.
    """
    every = tuple(sorted(set(known)))
    if missing := sorted(set(names) - set(every)):
        raise MethodError(
            f"class_names: {missing[0]!r} is not among the {len(every)} that were assigned; a part "
            "with noise names all classes of the fleet"
        )
    places = np.array([every.index(name) for name in names], np.int64)
    return every, places[classes]


def noise_of(assignment: StatisticsAssignment) -> MomentNoise | None:
    """Return the noise of an assignment's parts; None where there is none."""
    if assignment.noise is None:
        return None
    most = assignment.settings.max_samples_per_part
    return MomentNoise.of(assignment.noise, assignment.columns, most)


def check_private(
    assignment: StatisticsAssignment, moments: IntegerMoments, largest: int, members: int
) -> bool:
    """Check moments with noise, and return whether there is any: `MomentNoise.check`.

    They are a part's, or those of `members` cohorts together.
    """
    noise, parts = noise_of(assignment), members * MOST_MEMBERS if members else 1
    if noise is None:
        return False
    root = sqrt(parts)
    together = MomentNoise(
        noise.gram * root, noise.sums * root, noise.counts * root, noise.squared_length
    )
    together.check(moments, largest, parts * assignment.settings.max_samples_per_part)
    return True


def denoised(gram: Floats) -> Floats:
    """Return noisy G (M x M) without negative eigenvalues, and with the ridge that noise asks for.

    Samples give no negative ones, so the most negative tells how large the noise of all parts is
    together. Nothing but the sum is looked at, so this spends no budget.
    """
    with one_blas_thread():
        values, vectors = np.linalg.eigh(gram)
        ridge = _RIDGE_OF_NOISE * max(0.0, -float(values[0]))
        return np.asarray((vectors * (np.maximum(values, 0.0) + ridge)) @ vectors.T, np.float64)


def _drawn(count: int, deviation: float) -> Integers:
    try:
        return discrete_gaussian(count, deviation)
    except PrivacyError as error:
        raise MethodError(str(error)) from error
