"""How new a sample is by a ridge head's scores: further from every class than from all together.

    D(s) = min_c (s - m_c)^T W^-1 (s - m_c) - (s - m)^T V^-1 (s - m)

The relative Mahalanobis distance (Ren et al., "A simple fix to Mahalanobis distance for improving
near-OOD detection", 2021) of scores s (K,): m_c and m are the means of a class and of all samples,
W the covariance within classes and V that of all. A ridge head's scores span what tells classes
apart, so this is the distance that its features would have; and no sample is needed for it. With
weights w = (G + l I)^-1 P, the agreement T = w^T P (K, K) holds what is left of G and P:

    m_c = T_c / n_c,   n W = T - sum_c n_c m_c m_c^T,   n V = T - n m m^T

where T stands for the sum of s s^T with the ridge's share. Over the samples that were learned D is
0 on average against their own class, so no reference is needed to know its scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

Floats = npt.NDArray[np.float64]
Stored = npt.NDArray[np.float32]

_SMALLEST = 1e-9
"""Least part of the largest eigenvalue of a covariance that any may be."""
_LEAST_WITHIN = 1e-3
"""Least part of the variance of all samples, in any direction, that is within classes."""


@dataclass(frozen=True, eq=False)
class ScoreNovelty:
    """What makes a novelty from 0 to 1 of scores (N, C); for K of the C classes, that have data."""

    rows: npt.NDArray[np.int64]
    """(K,): which of the scores count."""
    centre: Stored
    """(K,): m."""
    within: Stored
    """(K, K): A, with A A^T = W^-1."""
    means: Stored
    """(K, K): of each class by row, (m_c - m)^T A."""
    overall: Stored
    """(K, K): B, with B B^T = V^-1."""

    @classmethod
    def of(
        cls,
        agreement: Floats,
        counts: npt.NDArray[np.int64],
        scales: Floats,
        rows: npt.NDArray[np.int64],
    ) -> Self | None:
        """Return that of a head with scores `scales` (K,) times w^T h.

        `agreement` is T (K, K), `counts` the samples of each class (K,), `rows` (K,) its row in the
        head. None for fewer than two classes, where the sums leave no covariance, as an estimated
        Gram matrix may, and where the head has fitted its samples so closely that how they lie
        within their classes says nothing of other samples: with fewer of them than features.
        """
        if len(counts) < 2:
            return None
        total = int(counts.sum())
        product = (agreement + agreement.T) / 2
        means = product / counts[:, np.newaxis]
        centre = product.sum(axis=0) / total
        within = (product - means.T @ (means * counts[:, np.newaxis])) / total
        first = _root_of_inverse(within)
        second = _root_of_inverse(product / total - np.outer(centre, centre))
        if first is None or second is None:
            return None
        if np.linalg.eigvalsh(second.T @ within @ second)[0] < _LEAST_WITHIN:
            return None
        back = 1 / scales[:, np.newaxis]
        arrays = (centre * scales, back * first, (means - centre) @ first, back * second)
        return cls(rows, *(array.astype(np.float32) for array in arrays))

    @cached_property
    def steepness(self) -> float:
        """What D is multiplied by before it is brought to 0 to 1: its spread grows as sqrt(K)."""
        return 1 / (2 * sqrt(len(self.rows)))

    def of_scores(self, scores: npt.NDArray[np.floating]) -> Floats:
        """Return 1 / (1 + exp(-D / (2 sqrt(K)))) (N,) of scores (N, C)."""
        beside = scores[:, self.rows].astype(np.float64) - self.centre
        inside = beside @ self.within
        means = self.means.astype(np.float64)
        squares = (inside**2).sum(axis=1)[:, np.newaxis] - 2 * inside @ means.T
        nearest = (squares + (means**2).sum(axis=1)).min(axis=1)
        apart = nearest - ((beside @ self.overall) ** 2).sum(axis=1)
        with np.errstate(over="ignore"):  # exp of much is infinite, and its inverse 0
            return np.asarray(1 / (1 + np.exp(-self.steepness * apart)))


def _root_of_inverse(covariance: Floats) -> Floats | None:
    """Return L^-T (K, K) of a covariance L L^T; None where it is not positive definite."""
    try:
        least, *_, largest = np.linalg.eigvalsh(covariance)
        if not least > _SMALLEST * largest:
            return None
        return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)).T)
    except np.linalg.LinAlgError:
        return None
