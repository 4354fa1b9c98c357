"""Rules that the moments of real samples obey: G = H^T H, P = H^T Y and the counts of classes.

For features h from `low` to `high` (M of them), n_c samples of class c and n together, with
P_c the sum of h over class c and s = sum_c P_c:

    c   G_jj >= sum_c (2k + 1) P_jc - k(k + 1) n_c, k = floor(P_jc / n_c): (h - k)(h - k - 1) >= 0
    b   G_jj and s_j are both odd or both even: so are h^2 and h
    d   G_jj <= (low + high) s_j - n low high: (h - low)(high - h) >= 0
    e   the same of two features: (h_i - low)(high - h_j), (high - h_i)(high - h_j) and
        (h_i - low)(h_j - low) are not negative
    f   G - sum_c P_c P_c^T / n_c + tau I has a Cholesky factor

b to e are exact, in integers. f is the scatter within classes, which is positive semi-definite.
Its rounded value may fall below zero by `rounding_room` at most, so no honest payload fails:
a product of C terms errs by gamma_C of its trace, and Cholesky ends wherever the least eigenvalue
exceeds gamma_(M+1) / (1 - gamma_(M+1)) of the trace (Rump 2006; Higham, Theorem 10.7).

Together they say that G, P and n are those of real-valued samples in the box and a surplus that
only regularises. They do not say that the samples were images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import MomentsError
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_UNIT = 2.0**-53
_ROWS = 64
"""Rows of G that are looked at together, so that what they are compared with stays in the cache."""


@dataclass(frozen=True)
class MomentRoom:
    """Distance that noise and rounding put between told moments and those of samples.

    `gram` and `sums` bound spectral norms, `counts` what a count may lack.
    """

    gram: float = 0.0
    sums: float = 0.0
    counts: float = 0.0

    @property
    def told_counts(self) -> float:
        """Samples to add to each count of a class."""
        return self.counts + (self.sums**2 / self.gram if self.gram else 0.0)


def check_integer_moments(
    gram: Floats, sums: Integers, counts: Integers, ends: tuple[int, int]
) -> None:
    """Raise `MomentsError` unless rules b to f hold, the cheap ones first.

    `gram` G (M x M, symmetric, integers in float64), `sums` P^T (C x M), `counts` n_c (C,);
    `ends` are `low` and `high`.
    """
    total: Integers = sums.sum(axis=0)
    squares: Integers = np.diagonal(gram).astype(np.int64)
    _check_diagonal(squares, sums, counts, ends)
    _check_products(gram, total, int(counts.sum()), ends)
    check_scatter(gram, sums.astype(np.float64), counts.astype(np.float64))


def check_scatter(
    gram: Floats, sums: Floats, counts: Floats, room: MomentRoom = MomentRoom()
) -> None:
    """Raise `MomentsError` unless rule f holds for moments that lie within `room` of samples'.

    With room it is the Schur complement of [[G + 2 r_G I, P], [P^T, diag(n + r_n + r_P^2 / r_G)]],
    which is positive semi-definite for what lies so near to moments of samples.
    """
    rows = sums / np.sqrt(counts + room.told_counts)[:, None]
    trace = float(np.trace(gram)) + 2 * room.gram * len(gram)
    with one_blas_thread():
        scatter = rows.T @ rows
        np.subtract(gram, scatter, out=scatter)
        added = 2 * room.gram + rounding_room(trace, len(gram), len(counts))
        scatter.reshape(-1)[:: len(gram) + 1] += added  # its diagonal
        if not _has_factor(scatter):
            raise MomentsError(
                "gram: no samples have this Gram matrix beside these class sums, since the scatter "
                "within classes would be negative in some direction; compute both from the same "
                "samples"
            )


def rounding_room(trace: float, columns: int, classes: int) -> float:
    """Return tau of rule f: 2 (gamma_(M+2) / (1 - gamma_(M+2)) + gamma_(C+8)) tr G + 10^-6.

    The factor 2 holds the trace of what is factored, at most tr G + M tau.
    """
    factored = _gamma(columns + 2)
    factored /= 1 - factored
    return 2 * (factored + _gamma(classes + 8)) * max(trace, 0.0) + 1e-6


def float_room(samples: int, trace: float) -> tuple[float, float]:
    """Return how far float64 sums over samples lie from exact ones: of G, and of P (norms)."""
    unit = _gamma(samples + 4)
    trace = max(trace, 0.0)
    return unit * trace, unit * float(np.sqrt(samples * trace))


def scatter_work(columns: int) -> int:
    """Return the multiplications of rule f with a usual number of classes, a tenth of M."""
    return columns**3 // 3 + columns**3 // 10


def _gamma(terms: int) -> float:
    return terms * _UNIT / (1 - terms * _UNIT)


def least_squares(sums: Integers, counts: Integers) -> Integers:
    """Return the least sums of squares (C x M) of so many integers with these sums: rule c."""
    whole = sums // counts[:, None]
    return np.asarray((2 * whole + 1) * sums - whole * (whole + 1) * counts[:, None], np.int64)


def _check_diagonal(
    squares: Integers, sums: Integers, counts: Integers, ends: tuple[int, int]
) -> None:
    low, high = ends
    total, samples = sums.sum(axis=0), int(counts.sum())
    lowest: Integers = least_squares(sums, counts).sum(axis=0)
    highest = (low + high) * total - samples * low * high
    bad = (squares < lowest) | (squares > highest)
    if bad.any():
        index = int(bad.argmax())
        raise MomentsError(
            f"gram: {squares[index]} on the diagonal at {index}; samples with these class sums "
            f"give {lowest[index]} to {highest[index]}"
        )
    odd = (squares - total) % 2 != 0
    if odd.any():
        index = int(odd.argmax())
        raise MomentsError(
            f"gram: {squares[index]} on the diagonal at {index}; samples with a sum of "
            f"{total[index]} give an {'odd' if total[index] % 2 else 'even'} number"
        )


def _check_products(gram: Floats, total: Integers, samples: int, ends: tuple[int, int]) -> None:
    """Check every entry against its two sums; float64 holds all of these integers."""
    low, high = ends
    sums = total.astype(np.float64)
    # Rows are the feature i, columns j; G is symmetric, so one order of the pair is enough.
    above, below = high * sums - samples * low * high, high * sums - samples * high**2
    under = low * sums - samples * low**2
    for start in range(0, len(gram), _ROWS):
        part = slice(start, start + _ROWS)
        most = np.add.outer(above[part], low * sums)
        least = np.add.outer(below[part], high * sums)
        np.maximum(least, np.add.outer(under[part], low * sums), out=least)
        bad = (gram[part] > most) | (gram[part] < least)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            largest = min(most[i, j], above[j] + low * sums[start + i])
            raise MomentsError(
                f"gram: {gram[start + i, j]:.0f} for features {start + i} and {j}; samples with "
                f"these class sums give {least[i, j]:.0f} to {largest:.0f}"
            )


def _has_factor(matrix: Floats) -> bool:
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(lower).all())
