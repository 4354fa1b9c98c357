"""Exact Gram matrix and class sums of integer features.

G = H^T H and P = H^T Y of integers (n x M): float32 BLAS products over so few rows at a time that
no partial sum leaves float32's integers, added up in int64. The result does not depend on BLAS, its
threads, the order of samples or how they are divided into blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.accelerator import accelerator
from fleetledger.learning.numerics.exactness import exact_rows
from fleetledger.learning.numerics.triangles import triangle_size

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_PANEL = 256
"""Columns of G made at once: the panel stays in the cache while blocks are added to it."""


def check_integers(features: npt.NDArray[Any], low: int, high: int) -> npt.NDArray[np.float32]:
    """Return `features` (n x M) as float32 after checking that all are integers in [low, high].

    Raises `FeatureError` that names the first value which is not; NaN and infinity are not.
    """
    if features.ndim != 2 or features.dtype.kind not in "iuf":
        raise FeatureError(f"features: {features.dtype} {features.shape}; give numbers (n, M)")
    good = (features >= low) & (features <= high)
    if features.dtype.kind == "f":
        good &= np.rint(features) == features
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise FeatureError(
            f"features: {features[row, column]} in row {row}, column {column}; "
            f"give integers from {low} to {high}"
        )
    return np.ascontiguousarray(features, np.float32)


def gram_triangle(features: npt.NDArray[np.float32], largest: int) -> Integers:
    """Return the upper triangle of H^T H, row by row, as int64 (M(M+1)/2,).

    `features` H (n x M) holds integers of magnitude up to `largest`. Raises `RangeError` when one
    product alone is not exact in float32 (`largest` above 4096).
    """
    columns = features.shape[1]
    rows = exact_rows(largest)
    faster = accelerator()
    if faster is not None:
        return faster.gram_triangle(features, rows)
    triangle = np.empty(triangle_size(columns), np.int64)
    end = 0
    for first in range(0, columns, _PANEL):
        panel = _gram_panel(features, first, rows)
        for row, values in enumerate(panel):
            start, end = end, end + len(values) - row
            triangle[start:end] = values[row:]
    return triangle


def class_sums(
    features: npt.NDArray[np.float32], classes: npt.NDArray[np.integer], count: int
) -> Integers:
    """Return P^T, the sum of H's rows per class, as int64 (`count` x M).

    `classes` (n,) holds each row's class, from 0 to `count` - 1.
    """
    sums = np.zeros((count, features.shape[1]), np.int64)
    for index in range(count):
        sums[index] = features[classes == index].sum(axis=0, dtype=np.int64)
    return sums


def _gram_panel(features: npt.NDArray[np.float32], first: int, rows: int) -> Integers:
    """Return rows `first` to `first` + 256 of G from column `first` on."""
    right = features[:, first:]
    left = right[:, :_PANEL]
    panel = np.zeros((left.shape[1], right.shape[1]), np.int64)
    for start in range(0, len(features), rows):
        block = slice(start, start + rows)
        panel += (left[block].T @ right[block]).astype(np.int32)
    return panel
