"""The ridge chosen from the sums alone: no sample is held out, and none is seen.

Generalised cross-validation (Golub, Heath and Wahba, Technometrics 1979) puts the mean leverage in
place of every sample's own and so leaves each sample out without having it. It minimises squared
error, which likes scores that shrink; what counts here is which score is the largest. So the same
left-out scores are asked how far a class's own score is above the next, in standard deviations.

With G = H^T H = U diag(s) U^T, P = H^T Y, n_c samples of class c, n in all, N = diag(n_c), and
for a ridge l (A' is the transpose of A):

    W = (G + l I)^-1 P,  X = W' P,  S = W' G W        sums of scores by class, and of their products
    t = sum_i s_i / (s_i + l) / n                     mean leverage
    z = (W' h - t y) / (1 - t)                        scores of a sample that was left out
    M = (X - t N) N^-1 / (1 - t)                      their mean (scores x classes)
    V = ((S - 2 t X + t^2 N) / (1 - t)^2 - M N M') / n           covariance within classes
    T(l) = sum_c n_c / n  min_j (M_cc - M_jc) / sqrt(V_cc + V_jj - 2 V_cj)

Of the ridges on the grid whose T is within a hundredth of the largest, the smallest is taken: where
samples are many, T is flat and small ridges rank better, where they are few it is not. All of it is
a function of G, P and counts, so of the data and neither of its order nor of its division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RIDGES = tuple(10.0 ** (quarter / 4) for quarter in range(-12, 17))
"""The grid, in units of the square of the largest feature: 0.001 to 10,000."""
NEARLY_BEST = 0.01
_LEAST_LEFT = 1e-3
"""Where the mean leverage leaves less than this of a score, left-out scores are rounding errors."""


@dataclass(frozen=True)
class RatedRidge:
    """A ridge, and T(l); minus infinity where too little of a score is left."""

    ridge: float
    separation: float


def choose_ridge(
    gram: Floats, correlation: Floats, counts: Integers, ridges: Sequence[float]
) -> float | None:
    """Return the ridge for G (M x M), P (M x C) and the samples of each class (C,).

    `ridges` rise. None where there are no two classes, or no ridge leaves anything of a score.
    Raises `FeatureError` when shapes disagree.
    """
    if np.count_nonzero(counts) < 2:
        return None
    rated = rate_ridges(gram, correlation, counts, ridges)
    best = max(one.separation for one in rated)
    if not np.isfinite(best):
        return None
    enough = best - NEARLY_BEST * abs(best)
    return next(one.ridge for one in rated if one.separation >= enough)


def rate_ridges(
    gram: Floats, correlation: Floats, counts: Integers, ridges: Sequence[float]
) -> tuple[RatedRidge, ...]:
    """Return every ridge with its T(l); classes without samples are left out.

    One eigendecomposition of G serves all. Raises `FeatureError` when shapes disagree.
    """
    size = len(gram)
    if gram.shape != (size, size) or correlation.shape != (size, len(counts)):
        raise FeatureError(
            f"ridge: shapes of gram {gram.shape}, correlation {correlation.shape}, counts "
            f"({len(counts)},); give (M, M), (M, C) and (C,)"
        )
    held = np.flatnonzero(counts)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(gram)
        sums = _Turned(np.maximum(values, 0.0), vectors.T @ correlation[:, held])
        samples = counts[held].astype(np.float64)
        return tuple(RatedRidge(ridge, sums.separation(ridge, samples)) for ridge in ridges)


@dataclass(frozen=True, eq=False)
class _Turned:
    """G and P seen along G's eigenvectors: its eigenvalues (M,), and U' P (M x C)."""

    values: Floats
    correlation: Floats

    def separation(self, ridge: float, samples: Floats) -> float:
        """Return T(l) for the samples of each class (C,)."""
        shrunk = 1.0 / (self.values + ridge)
        number = samples.sum()
        leverage = float((self.values * shrunk).sum() / number)
        left = 1.0 - leverage
        if left < _LEAST_LEFT:
            return -np.inf
        weighted = self.correlation * shrunk[:, np.newaxis]
        own = weighted.T @ self.correlation
        products = weighted.T @ (weighted * self.values[:, np.newaxis])
        moments = products - 2 * leverage * own + np.diag(leverage**2 * samples)
        means = (own - np.diag(leverage * samples)) / samples / left
        within = (moments / left**2 - (means * samples) @ means.T) / number
        return float(_least_margins(means, within) @ samples / number)


def _least_margins(means: Floats, within: Floats) -> Floats:
    """Return for each class the least of its margins, in standard deviations (C,)."""
    spread = np.diag(within)
    variance = spread[:, np.newaxis] + spread - within - within.T
    margins = np.diag(means)[:, np.newaxis] - means.T
    smallest = np.finfo(np.float64).tiny
    margins = margins / np.sqrt(np.maximum(variance, smallest))
    np.fill_diagonal(margins, np.inf)
    return np.asarray(margins.min(axis=1))
