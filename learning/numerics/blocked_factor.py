"""Cholesky factor of G + ridge I in blocks, by matrix products alone.

For a block k of columns, with all of L left of it known:

    S_k = A_k - L_left L_left^T      L_kk = cholesky(S_kk)      L_below = S_below L_kk^-T

LAPACK's own takes half as long again, and has its memory copied twice. L may differ from it in
the last bits of its largest numbers, so a head, whose digest is recorded, is not solved by this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.ridge import singular

Floats = npt.NDArray[np.float64]

_BLOCK = 64


class BlockedFactor:
    """L (M x M) with L L^T = G + ridge I; raises `SingularError` where there is none."""

    def __init__(self, gram: Floats, ridge: float) -> None:
        lower = gram.copy()
        lower[np.diag_indices_from(lower)] += ridge
        self._lower = lower
        self._inverses: list[Floats] = []
        for start in range(0, len(lower), _BLOCK):
            rows = slice(start, start + _BLOCK)
            lower[start:, rows] -= lower[start:, :start] @ lower[rows, :start].T
            try:
                factor = np.linalg.cholesky(lower[rows, rows])
                inverse = np.tril(np.linalg.inv(factor))
            except np.linalg.LinAlgError as error:
                raise singular(ridge) from error
            if not (np.isfinite(factor).all() and np.isfinite(inverse).all()):
                raise singular(ridge)
            lower[start + _BLOCK :, rows] = lower[start + _BLOCK :, rows] @ inverse.T
            self._inverses.append(inverse)

    def forward(self, right: Floats) -> Floats:
        """Return the solution y (M x C) of L y = `right`."""
        result: Floats = right.copy()
        for place, inverse in enumerate(self._inverses):
            start = place * _BLOCK
            rows = slice(start, start + _BLOCK)
            result[rows] = inverse @ (result[rows] - self._lower[rows, :start] @ result[:start])
        return result

    def back(self, right: Floats) -> Floats:
        """Return the solution w (M x C) of L^T w = `right`."""
        result: Floats = right.copy()
        for place, inverse in reversed(list(enumerate(self._inverses))):
            start, stop = place * _BLOCK, (place + 1) * _BLOCK
            rows = slice(start, stop)
            rest = result[rows] - self._lower[stop:, rows].T @ result[stop:]
            result[rows] = inverse.T @ rest
        return result
