"""Ridge regression from a Gram matrix: W = (G + lambda I)^-1 P, equations (7) and (8) of STSA.

By Cholesky in float64 on one BLAS thread. Triangular systems are solved in blocks: small dense
solves on the diagonal, matrix products for the rest, because NumPy has no triangular solver.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError, SingularError
from fleetledger.learning.numerics.accelerator import accelerator
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]

_BLOCK = 64


def solve_ridge(gram: Floats, correlation: Floats, ridge: float) -> Floats:
    """Return W (M x C, float64) for `gram` G (M x M, symmetric) and `correlation` P (M x C).

    Raises `FeatureError` when shapes disagree, and `SingularError`, naming `ridge`, when
    G + ridge I is not positive definite to working precision.
    """
    size = len(gram)
    if gram.shape != (size, size) or correlation.ndim != 2 or len(correlation) != size:
        raise FeatureError(
            f"ridge: gram {gram.shape} and correlation {correlation.shape}; give (M, M) and (M, C)"
        )
    system = gram.copy()
    system[np.diag_indices_from(system)] += ridge
    faster = accelerator()
    if faster is not None:
        solution = faster.solve(system, correlation)
        if solution is None:
            raise singular(ridge)
        return solution
    with one_blas_thread():
        try:
            lower = np.linalg.cholesky(system)
        except np.linalg.LinAlgError as error:
            raise singular(ridge) from error
        if not np.isfinite(lower).all():
            raise singular(ridge)
        return back_solution(lower, forward_solution(lower, correlation))


def singular(ridge: float) -> SingularError:
    """Return the error of a system G + ridge I that has no stable solution."""
    return SingularError(
        f"ridge: G + {ridge:g} I is not positive definite; choose a larger ridge, "
        "and check that the Gram matrix is a sum of whole contributions"
    )


def forward_solution(lower: Floats, right: Floats) -> Floats:
    """Return the solution y (M x C) of L y = `right`."""
    result: Floats = right.astype(np.float64)
    for start in range(0, len(lower), _BLOCK):
        rows = slice(start, start + _BLOCK)
        rest = result[rows] - lower[rows, :start] @ result[:start]
        result[rows] = np.linalg.solve(lower[rows, rows], rest)
    return result


def back_solution(lower: Floats, right: Floats) -> Floats:
    """Return the solution w (M x C) of L^T w = `right`."""
    result: Floats = right.copy()
    for start in reversed(range(0, len(lower), _BLOCK)):
        stop = start + _BLOCK
        rows = slice(start, stop)
        rest = result[rows] - lower[stop:, rows].T @ result[stop:]
        result[rows] = np.linalg.solve(lower[rows, rows].T, rest)
    return result
