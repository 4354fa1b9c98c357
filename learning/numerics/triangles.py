"""Upper triangles and trapezoids as vectors, row by row."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError

Scalar = TypeVar("Scalar", bound=np.generic)

_TILE = 256
"""Rows and columns that are turned at once, so that both sides stay in the cache."""
_SMALL = 128
"""Columns up to which places are kept: at most 128 KiB for each of a few widths."""


def triangle_size(columns: int) -> int:
    """Return the number of entries on and above the diagonal of a square matrix."""
    return columns * (columns + 1) // 2


def trapezoid_size(rows: int, columns: int) -> int:
    """Return the number of entries on and above the diagonal of `rows` <= `columns` rows."""
    return rows * columns - rows * (rows - 1) // 2


def upper(rows: int, columns: int) -> npt.NDArray[np.bool_]:
    """Return the mask (`rows` x `columns`) that is true on and above the diagonal."""
    return np.arange(columns) >= np.arange(rows)[:, None]


def pack_upper(matrix: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return the entries on and above the diagonal, row by row.

    `matrix` has as many columns as rows, or more.
    """
    return matrix[upper(*matrix.shape)]


def unpack_upper(vector: npt.NDArray[Scalar], rows: int, columns: int) -> npt.NDArray[Scalar]:
    """Return the matrix (`rows` x `columns`) with zeros below the diagonal.

    Raises `FeatureError` when `vector` has another length than such a matrix needs.
    """
    _check_size(vector, rows, columns)
    matrix = np.zeros((rows, columns), vector.dtype)
    matrix[upper(rows, columns)] = vector
    return matrix


def symmetric(triangle: npt.NDArray[Scalar], columns: int) -> npt.NDArray[Scalar]:
    """Return the symmetric matrix whose upper triangle is `triangle`; raise as `unpack_upper`."""
    _check_size(triangle, columns, columns)
    if columns <= _SMALL:
        return triangle[_places(columns)]
    matrix = np.empty((columns, columns), triangle.dtype)
    begins = diagonal_index(columns)
    for row, begin in enumerate(begins.tolist()):
        matrix[row, row:] = triangle[begin : begin + columns - row]
    for start in range(0, columns, _TILE):
        # A tile of rows becomes a tile of columns; its square on the diagonal is turned first.
        tile = slice(start, start + _TILE)
        square = np.triu(matrix[tile, tile])
        matrix[tile, tile] = square + np.triu(square, 1).T
        for first in range(start + _TILE, columns, _TILE):
            below = slice(first, first + _TILE)
            matrix[below, tile] = matrix[tile, below].T
    return matrix


def diagonal_index(columns: int) -> npt.NDArray[np.int64]:
    """Return where the diagonal lies in the vector of an upper triangle (`columns`,)."""
    row = np.arange(columns, dtype=np.int64)
    index: npt.NDArray[np.int64] = row * columns - row * (row - 1) // 2
    return index


@lru_cache(maxsize=8)
def _places(columns: int) -> npt.NDArray[np.int64]:
    """Return where each entry of the symmetric matrix lies in the vector of its upper triangle."""
    row, column = np.indices((columns, columns))
    low, high = np.minimum(row, column), np.maximum(row, column)
    places: npt.NDArray[np.int64] = diagonal_index(columns)[low] + high - low
    return places


def diagonal(triangle: npt.NDArray[Scalar], columns: int) -> npt.NDArray[Scalar]:
    """Return the diagonal of the matrix whose upper triangle is `triangle`."""
    entries: npt.NDArray[Scalar] = triangle[diagonal_index(columns)]
    return entries


def _check_size(vector: npt.NDArray[Scalar], rows: int, columns: int) -> None:
    if vector.shape != (trapezoid_size(rows, columns),):
        raise FeatureError(
            f"triangle: shape {vector.shape} for {rows} x {columns}; give "
            f"({trapezoid_size(rows, columns)},)"
        )
