"""A vector that shows which of several Gram matrices is none.

A sum of Gram matrices and a ridge is positive definite. Where its Cholesky factor fails in a block,
the lowest eigenvector of that block, extended upwards by one triangular solve, is v with
v^T (G + lambda I) v < 0. Rounded to integers, v^T G_i v is exact for every part: below zero, it
proves to anybody that G_i is the Gram matrix of no samples.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BLOCK = 64
_LARGEST = 4096
_ROUNDING = 1e-13
"""Of the largest eigenvalue of a block; what lies below may be rounding."""


def negative_direction(gram: Floats, ridge: float) -> Integers | None:
    """Return v (M,), integers up to 4096, along which G + ridge I is negative; None for none.

    By a blocked Cholesky factorisation, `gram` symmetric (M x M).
    """
    size = len(gram)
    system = gram.copy()
    system[np.diag_indices_from(system)] += ridge
    lower = np.zeros_like(system)
    for start in range(0, size, _BLOCK):
        rows = slice(start, min(start + _BLOCK, size))
        left = system[rows, rows] - lower[rows, :start] @ lower[rows, :start].T
        values, vectors = np.linalg.eigh(left)
        if values[0] <= _ROUNDING * values[-1]:
            return _extended(lower, start, vectors[:, 0])
        lower[rows, rows] = np.linalg.cholesky(left)
        below = slice(rows.stop, size)
        rest = system[below, rows] - lower[below, :start] @ lower[rows, :start].T
        lower[below, rows] = np.linalg.solve(lower[rows, rows], rest.T).T
    return None


def _extended(lower: Floats, start: int, lowest: Floats) -> Integers:
    vector = np.zeros(len(lower))
    rows = slice(start, start + len(lowest))
    vector[rows] = lowest
    if start:
        known = lower[:start, :start]
        vector[:start] = np.linalg.solve(known.T, -(lower[rows, :start].T @ lowest))
    return np.asarray(np.rint(vector * (_LARGEST / np.abs(vector).max())), np.int64)


def form_along(triangle: Integers, vector: Integers) -> int:
    """Return v^T G v in exact integers for the upper triangle (M(M+1)/2,) of G, row by row."""
    columns, end, total = len(vector), 0, 0
    for row, factor in enumerate(vector.tolist()):
        start, end = end, end + columns - row
        if factor:
            # Entries below 2^47 times 2^12 stay within int64 one by one, and their sum may not.
            products = triangle[start:end] * vector[row:]
            halves = int((products >> 32).sum()) * (1 << 32) + int((products & 0xFFFFFFFF).sum())
            total += factor * (2 * halves - int(products[0]))
    return total
