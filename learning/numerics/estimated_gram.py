"""The Gram matrix estimated from class sums alone: STSA-E, without bias.

Equation (9) of Guan et al., arXiv 2506.01327, in the form that is symmetric, positive semi-definite
and free of cancellation. One stage, class by class; group k holds n_k samples of the class with
sum S_k, m_k = S_k / n_k, and K groups hold it, N samples together with mean m:

    Sigma^ = 1/(K-1) sum_k n_k (m_k - m)(m_k - m)^T
    G^     = N m m^T + (N-1) Sigma^

The exact Gram matrix is the same with the covariance of the samples in place of Sigma^. If a
class's features are independent and alike in all groups, both have the same expectation, whatever
their distribution. K counts the groups that hold the class: counting all groups, as the published
program does, shrinks Sigma^ wherever a group lacks the class.

A class that a single group holds tells nothing of its covariance. It is given that of the stage's
other classes, averaged with the weights K - 1, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]

SingleHolder = Literal["pooled", "zero"]
"""What stands for the covariance of a class that one group holds."""

_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class ClassGroups:
    """One class in one stage: sums of h (K x M) over the groups that hold it, their sizes (K,).

    Raises `FeatureError` for no group, sizes below 1 and shapes that do not fit.
    """

    sums: Floats
    counts: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.sums.ndim != 2 or self.counts.shape != self.sums.shape[:1] or not len(self.counts):
            raise FeatureError(
                f"groups: sums {self.sums.shape} and counts {self.counts.shape}; "
                "give (K, M) and (K,), K at least 1"
            )
        if (self.counts < 1).any():
            raise FeatureError(
                f"groups: a count of {self.counts.min()}; leave groups without the class out"
            )

    @property
    def samples(self) -> int:
        """N, the number of samples of the class."""
        return int(self.counts.sum())

    @property
    def holders(self) -> int:
        """K, the number of groups that hold the class."""
        return len(self.counts)


@dataclass(frozen=True)
class EstimatorRule:
    """How the estimate is made.

    `all_groups` counts every group of the stage in place of the holders, with coefficients that
    would be negative set to 0: the published program, biased where groups lack classes.
    """

    single_holder: SingleHolder = "pooled"
    all_groups: int | None = None


def estimated_gram(classes: Sequence[ClassGroups], columns: int, rule: EstimatorRule) -> Floats:
    """Return G^ (M x M, float64) of one stage; `columns` is M.

    Computed on one BLAS thread from the classes and groups in the order given, so equal input
    gives equal bits on equal platforms.
    """
    result = np.zeros((columns, columns))
    with one_blas_thread():
        for block in _blocks(_weighted_rows(classes, rule)):
            result += block.T @ block
    return result


def within_scatter(classes: Sequence[ClassGroups], columns: int) -> Floats:
    """Return sum_c (N_c - 1) Sigma^_c (M x M, float64), the estimate without the classes' means.

    FedCOF (Goswami et al., arXiv 2412.14326) solves with it; a class that a single group holds adds
    nothing. Computed as `estimated_gram` is.
    """
    rows = (
        _deviations(groups, (groups.samples - 1) / (groups.holders - 1))
        for groups in classes
        if groups.holders > 1
    )
    result = np.zeros((columns, columns))
    with one_blas_thread():
        for block in _blocks(rows):
            result += block.T @ block
    return result


def _weighted_rows(classes: Sequence[ClassGroups], rule: EstimatorRule) -> Iterator[Floats]:
    """Yield rows B (K + 1 x M) per class; B^T B summed over the classes is the estimate."""
    shared = _shared_scatter(classes) if rule.single_holder == "pooled" else 0.0
    for groups in classes:
        mean_weight, scatter_weight = _weights(groups, rule, shared)
        mean = groups.sums.sum(axis=0) / groups.samples
        deviations = _deviations(groups, scatter_weight)
        yield np.concatenate([sqrt(mean_weight) * mean[None], deviations])


def _deviations(groups: ClassGroups, weight: float) -> Floats:
    """Return rows B (K x M); B^T B is `weight` times sum_k n_k (m_k - m)(m_k - m)^T."""
    means = groups.sums / groups.counts[:, None]
    mean = groups.sums.sum(axis=0) / groups.samples
    return np.asarray(np.sqrt(weight * groups.counts)[:, None] * (means - mean))


def _weights(groups: ClassGroups, rule: EstimatorRule, shared: float) -> tuple[float, float]:
    """Return the weights of m m^T and of sum_k n_k (m_k - m)(m_k - m)^T.

    With A = (N-1)/(K-1) and B = (N-K)/((K-1) N) as in equation (9), the second is A and the first
    A N - B N^2, which is N unless B was set to 0.
    """
    samples = groups.samples
    counted = groups.holders if rule.all_groups is None else rule.all_groups
    if counted == 1:
        return samples, 0.0
    spread = (samples - 1) / (counted - 1)
    if rule.all_groups is not None:
        return (samples if samples >= counted else samples * spread), spread
    return samples, spread + shared


def _shared_scatter(classes: Sequence[ClassGroups]) -> float:
    """Return by how much the others' scatter weighs more to stand in for lone holders' classes.

    The pooled covariance is the sum of all scatters over the sum of K - 1, and each class with one
    holder is owed N - 1 of it.
    """
    owed = sum(groups.samples - 1 for groups in classes if groups.holders == 1)
    freedom = sum(groups.holders - 1 for groups in classes)
    return owed / freedom if freedom else 0.0


def _blocks(parts: Iterator[Floats]) -> Iterator[Floats]:
    """Yield the rows of all parts, about a thousand at a time, so that products are large."""
    waiting: list[Floats] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= _BLOCK_ROWS:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)
