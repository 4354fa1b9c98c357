"""Rows F (r x M) with F^T F = G for a Gram matrix of low rank, by a pivoted Cholesky factor.

A step takes the columns with the largest remaining diagonal, a block of them at once:

    S = G_pp - F_p^T F_p = U diag(s) U^T        (pivots p, S taken apart into eigenvectors)
    new rows = diag(s)^-1/2 U^T (G_p - F_p^T F)

So r columns of G are read instead of all M, and the work is M r^2: n samples have a rank of at most
n. A matrix with noise on it has negative eigenvalues, which no rows have: it is taken apart as a
whole, and they are left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]

_BLOCK = 64
_NOTHING = 1e-11
"""Of the largest entry of the diagonal; what remains below it is rounding."""
_KEPT = 1e-6
"""Of a block's largest eigenvalue; a direction below it waits for a later block."""
_NOISE = -1e-7
"""Of the largest entry of the diagonal; a diagonal that falls below it has noise on it."""


def gram_rows(gram: Floats) -> Floats:
    """Return F (r x M) with F^T F = `gram` (M x M, symmetric) and r its rank, to rounding."""
    left = np.diagonal(gram).copy()
    largest = float(left.max(initial=0.0))
    rows = np.empty((0, len(gram)))
    with one_blas_thread():
        while left.size and left.max() > _NOTHING * largest:
            pivots = np.argpartition(-left, min(_BLOCK, len(left)) - 1)[:_BLOCK]
            pivots = pivots[left[pivots] > _NOTHING * largest]
            columns = gram[pivots] - rows[:, pivots].T @ rows
            values, vectors = np.linalg.eigh(columns[:, pivots])
            kept = values > _KEPT * values[-1]
            new = (vectors[:, kept] / np.sqrt(values[kept])).T @ columns
            left -= np.square(new).sum(axis=0)
            if left.min() < _NOISE * largest or len(rows) + len(new) > len(gram):
                return _clipped(gram)
            rows = np.concatenate([rows, new])
    return rows


def _clipped(gram: Floats) -> Floats:
    """Return the rows of the positive part of a matrix."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 0
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)
