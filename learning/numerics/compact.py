"""The compact Gram: an R factor of the scatter within classes, rounded row by row to few bits.

W = Q R with orthogonal Q, so W^T W = R^T R. W holds the n - C contrasts of a device's samples
within their classes (`class_scatter`), and R (min(n - C, M) x M, upper trapezoid) says what their
scatter says and no more. The class means are told by the class sums, which travel anyhow: rows
v_c = P_c / sqrt(n_c), rounded by everybody alike, complete R to a factor of H^T H.

So whatever R holds, [[G, P], [P^T, diag(n)]] is positive semi-definite up to the rounding of the
means: a payload is the moments of some samples by the making of its Gram matrix.

Each row of R is rounded to `bits` bits with a power-of-two step of its own, the smallest that holds
the row. Steps lie in an agreed range: a row too small for the finest step keeps fewer bits, a row
too large for the coarsest is refused. The Gram matrix of rounded rows is exact again: integers
times 2^(2 e_min).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics.accelerator import accelerator
from fleetledger.learning.numerics.exact_sum import ScaledIntegers, smallest_exponent
from fleetledger.learning.numerics.exactness import FLOAT64_EXACT, INT64_LARGEST, prove_float64
from fleetledger.learning.numerics.triangles import (
    diagonal_index,
    pack_upper,
    triangle_size,
    unpack_upper,
)

Floats = npt.NDArray[np.float64]

_STRIP = 512
"""Rows of a Gram matrix that are computed at once."""
_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class RowSteps:
    """How rows are rounded: `bits` signed bits in steps from 2^finest to 2^coarsest."""

    bits: int
    finest: int
    coarsest: int

    @property
    def largest(self) -> int:
        """The largest integer of a rounded row."""
        return (1 << (self.bits - 1)) - 1

    @classmethod
    def covering(cls, bits: int, finest: int, largest: float) -> RowSteps:
        """Return the steps whose coarsest just holds rows with entries up to `largest`."""
        coarsest = smallest_exponent(largest, bits, finest, finest + 64)
        return cls(bits, finest, coarsest)


@dataclass(frozen=True, eq=False)
class CompactFactor:
    """A rounded R factor of `columns` columns; row i is `values` of the row times 2^exponents[i].

    `values` (int64) holds the upper trapezoid row by row, `exponents` (int8) one entry per row.
    """

    values: npt.NDArray[np.int64]
    exponents: npt.NDArray[np.int8]
    columns: int


def factor(blocks: Iterable[Floats], columns: int) -> Floats:
    """Return R (min(rows, M) x M, float64, upper trapezoid) of W, told in `blocks` of rows.

    R^T R = W^T W. Blocks are folded in as they come, so memory does not grow with the number of
    rows. W may have any rank, and no rows at all.
    """
    faster = accelerator()
    if faster is not None:
        rows = np.concatenate([np.empty((0, columns)), *blocks])
        return faster.factor(rows) if len(rows) else rows
    enough = max(columns, _BLOCK_ROWS)
    result = np.empty((0, columns))
    waiting: list[Floats] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= enough:
            result, waiting = _folded(result, waiting), []
    return _folded(result, waiting) if waiting else result


def _folded(result: Floats, waiting: list[Floats]) -> Floats:
    return np.asarray(np.linalg.qr(np.concatenate([result, *waiting]), mode="r"))


def round_factor(triangular: Floats, steps: RowSteps) -> CompactFactor:
    """Return R rounded row by row; the first entry of a row that is not zero becomes positive.

    (A row's sign is arbitrary, R^T R does not see it.) Raises `RangeError` naming the first row
    that is too large for the coarsest step.
    """
    columns = triangular.shape[1]
    triangular = np.triu(triangular)
    exponents = np.array([_exponent(i, row, steps) for i, row in enumerate(triangular)], np.int8)
    rounded = np.rint(np.ldexp(triangular, -exponents.astype(np.int32)[:, None]))
    integers = rounded.astype(np.int64)
    return CompactFactor(pack_upper(integers * _signs(integers)), exponents, columns)


def factor_gram(compact: CompactFactor, steps: RowSteps, means: Floats) -> ScaledIntegers:
    """Return the upper triangle of the Gram matrix of the rounded rows and `means`, exactly.

    `means` (C x M) are `class_scatter.mean_rows`. The exponent is `2 * steps.finest`. Products are
    taken in float64 over blocks of rows whose sums are proven to stay within 2^53. Raises
    `FeatureError` for a factor that does not fit the steps or whose sizes disagree, `RangeError`
    when a block's sums or the total leave the exact range.
    """
    matrix = np.concatenate([_in_finest_steps(compact, steps), means])
    triangle = np.zeros(triangle_size(compact.columns), np.int64)
    for block in _exact_blocks(matrix):
        _add_triangle(triangle, matrix[block])
    return ScaledIntegers(triangle, 2 * steps.finest)


def factor_diagonal(compact: CompactFactor, steps: RowSteps) -> npt.NDArray[np.int64]:
    """Return the squared lengths (M,) of R's columns in steps of 2^(2 finest).

    Raises as `factor_gram` does.
    """
    matrix = _in_finest_steps(compact, steps)
    _exact_blocks(matrix)
    squares: npt.NDArray[np.int64] = np.square(matrix.astype(np.int64)).sum(axis=0)
    return squares


def check_steps(compact: CompactFactor, steps: RowSteps) -> None:
    """Raise `FeatureError` for a row whose step is coarser than it needs.

    Half a step is what rounding may have moved, so a coarse step in an empty row hides much.
    """
    rows = unpack_upper(compact.values, len(compact.exponents), compact.columns)
    used = np.abs(rows).max(axis=1, initial=0) >= 1 << (steps.bits - 2)
    bad = (compact.exponents > steps.finest) & ~used
    if bad.any():
        row = int(bad.argmax())
        raise FeatureError(
            f"row exponents: {compact.exponents[row]} of row {row}, which a finer step holds; use "
            "the finest that holds a row"
        )


def rounding_length(compact: CompactFactor) -> float:
    """Return the most by which rounding R's rows moves a column: half a step in each row."""
    return 0.5 * sqrt(float(np.ldexp(1.0, 2 * compact.exponents.astype(np.int32)).sum()))


def _add_triangle(triangle: npt.NDArray[np.int64], rows: Floats) -> None:
    """Add the upper triangle of R^T R to `triangle`, a strip of its rows at a time.

    A strip leaves out most of what lies below the diagonal, and all strips share their memory:
    new pages cost as much as the product.
    """
    columns = rows.shape[1]
    begins = diagonal_index(columns)
    memory = np.empty((min(_STRIP, columns), columns))
    for start in range(0, columns, _STRIP):
        left = rows[:, start : start + _STRIP]
        strip = memory.reshape(-1)[: left.shape[1] * (columns - start)]
        strip = strip.reshape(left.shape[1], columns - start)
        np.matmul(left.T, rows[:, start:], out=strip)
        for offset, products in enumerate(strip):
            begin = begins[start + offset]
            triangle[begin : begin + columns - start - offset] += products[offset:].astype(np.int64)


def largest_gram_entry(samples: int, columns: int, largest: int, steps: RowSteps) -> int:
    """Return a bound on the entries of `factor_gram`, in steps of 2^(2 finest).

    For features of magnitude up to `largest`. The diagonal of the exact Gram is at most
    samples * largest^2. Rounding moves each column of R by at most half a step per row: at most
    |R|_F / (bits' largest) over the rows that use all bits, plus sqrt(rows) / 2 finest steps; rows,
    those of means included, are no more than samples. An entry off the diagonal is at most the
    largest on it (Cauchy and Schwarz).
    """
    length = sqrt(samples) * largest
    rounding = length * sqrt(columns) / steps.largest
    rounding += 0.5 * sqrt(samples) * 2.0**steps.finest
    return ceil(((length + rounding) * 2.0**-steps.finest) ** 2 * (1 + 1e-9))


def prove_factor(samples: int, columns: int, largest: int, steps: RowSteps) -> int:
    """Return `largest_gram_entry` after proving that its sums are exact in float64.

    Raises `RangeError` otherwise: then allow fewer samples or bits, or a coarser finest step.
    """
    bound = largest_gram_entry(samples, columns, largest, steps)
    prove_float64("compact Gram", bound)
    return bound


def _exponent(index: int, row: Floats, steps: RowSteps) -> int:
    largest = float(np.abs(row).max())
    try:
        return smallest_exponent(largest, steps.bits, steps.finest, steps.coarsest)
    except RangeError as error:
        raise RangeError(f"row {index} of the R factor: {error}") from error


def _signs(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return -1 for rows whose first entry that is not zero is negative, else 1 (rows x 1)."""
    first = np.take_along_axis(rows, (rows != 0).argmax(axis=1)[:, None], axis=1)
    return np.where(first < 0, -1, 1)


def _in_finest_steps(compact: CompactFactor, steps: RowSteps) -> Floats:
    """Return the factor (rows x columns) as integers in steps of 2^finest, in float64."""
    exponents = compact.exponents.astype(np.int64)
    outside = exponents[(exponents < steps.finest) | (exponents > steps.coarsest)]
    if outside.size:
        raise FeatureError(
            f"row exponents: {outside[0]} is outside {steps.finest} to {steps.coarsest}; "
            "use the steps of the assignment"
        )
    if np.abs(compact.values).max(initial=0) > steps.largest:
        raise FeatureError(
            f"factor: a value exceeds {steps.largest}, the most of {steps.bits} bits"
        )
    matrix = unpack_upper(compact.values, len(exponents), compact.columns).astype(np.float64)
    return np.ldexp(matrix, (exponents - steps.finest).astype(np.int32)[:, None])


def _exact_blocks(matrix: Floats) -> list[slice]:
    """Return slices of rows in each of which no sum of products exceeds 2^53."""
    blocks, start, before, total = [], 0, 0, 0
    for row, largest in enumerate(np.abs(matrix).max(axis=1, initial=0.0)):
        square = int(largest) ** 2
        prove_float64(f"row {row} of the R factor", square)
        total += square
        if total - before > FLOAT64_EXACT:
            blocks.append(slice(start, row))
            start, before = row, total - square
    if total > INT64_LARGEST:
        raise RangeError(f"factor: sums of up to {total} leave int64; allow fewer samples or bits")
    return [*blocks, slice(start, len(matrix))]
