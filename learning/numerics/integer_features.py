"""From backbone features to integer features: everything after the first rounding is exact.

Per sample, with backbone features f (float32, width d), map R (d x M) and Q = 2^bits - 1:

    q = rint(f / max|f| * 127)           divide, multiply, round half to even: float32, this order
    a = relu(q R)                        integers below 2^24, so a float32 product is exact
    h = (2 a Q + m) // (2 m),  m = max a that is a / m * Q, rounded half up

A sample whose maximum is zero gives zeros. `frozen.onnx` does the same in ONNX operators; from the
same f both give the same integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from learning.errors import FeatureError, RangeError
from learning.numerics.exactness import FLOAT32_EXACT, FLOAT64_EXACT

QUANTISED_LARGEST = 127
"""Largest magnitude of a quantised backbone feature q."""

_BLOCK_ROWS = 1024


def largest_feature(bits: int) -> int:
    """Return Q, the largest integer feature of `bits` bits."""
    return (1 << bits) - 1


def quantise_features(features: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Return q (n x d), integers from -127 to 127, from backbone features f (n x d).

    Raises `FeatureError` for another dtype or number of axes, NaN and infinity.
    """
    if features.ndim != 2 or features.dtype != np.float32:
        raise FeatureError(f"features: {features.dtype} {features.shape}; give float32 (n, d)")
    if not np.isfinite(features).all():
        raise FeatureError("features: NaN or infinite; check the backbone and its preprocessing")
    largest = np.abs(features).max(axis=1, keepdims=True, initial=0)
    divisor = np.where(largest == 0, np.float32(1), largest)
    scaled = features / divisor * np.float32(QUANTISED_LARGEST)
    return np.asarray(np.rint(scaled), np.int8)


def project_integer(
    quantised: npt.NDArray[np.int8], matrix: npt.NDArray[np.int8], bits: int
) -> npt.NDArray[np.uint8]:
    """Return h (n x M), integers from 0 to 2^bits - 1, from q (n x d) and the map R (d x M).

    `bits` is at most 8. Raises `FeatureError` when the widths differ and `RangeError` when the
    product could leave the integers of float64.
    """
    if quantised.ndim != 2 or quantised.shape[1] != matrix.shape[0]:
        raise FeatureError(
            f"features: {quantised.shape} and a map of {matrix.shape}; give (n, d) and (d, M)"
        )
    exact = exact_product_type(matrix)
    mapped: npt.NDArray[Any] = matrix.astype(exact)
    result = np.empty((len(quantised), matrix.shape[1]), np.uint8)
    for start in range(0, len(quantised), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        product = np.matmul(quantised[block].astype(exact), mapped)
        result[block] = _round_to_levels(product, largest_feature(bits))
    return result


def exact_product_type(matrix: npt.NDArray[np.integer]) -> type[np.float32] | type[np.float64]:
    """Return the float type in which q R is exact, whatever q is and however BLAS adds.

    No partial sum of a column exceeds 127 times the column's sum of magnitudes. Raises
    `RangeError` when even float64 is too narrow.
    """
    columns = np.abs(matrix.astype(np.int64)).sum(axis=0)
    bound = QUANTISED_LARGEST * int(columns.max(initial=0))
    if bound <= FLOAT32_EXACT:
        return np.float32
    if bound <= FLOAT64_EXACT:
        return np.float64
    raise RangeError(f"map: sums of up to {bound} are not exact in float64; use smaller entries")


def _round_to_levels(product: npt.NDArray[Any], levels: int) -> npt.NDArray[np.int64]:
    positive = np.maximum(product, 0).astype(np.int64)
    largest = positive.max(axis=1, keepdims=True, initial=0)
    largest = np.where(largest == 0, 1, largest)
    return np.asarray((2 * levels * positive + largest) // (2 * largest), np.int64)
