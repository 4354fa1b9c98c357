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

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics.exactness import FLOAT32_EXACT, FLOAT64_EXACT

QUANTISED_LARGEST = 127
"""Largest magnitude of a quantised backbone feature q."""

_BLOCK_ROWS = 1024
_ROUNDED_ROWS = 16


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


class IntegerProjection:
    """One map R, made ready once to project many samples."""

    def __init__(self, matrix: npt.NDArray[np.int8], bits: int) -> None:
        """Take the map R (d x M); `bits` is at most 8.

        Raises `RangeError` when the product could leave the integers of float64.
        """
        self._mapped: npt.NDArray[Any] = matrix.astype(exact_product_type(matrix))
        self._levels = largest_feature(bits)

    def __call__(self, quantised: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
        """Return h (n x M), integers from 0 to 2^bits - 1, from q (n x d).

        Raises `FeatureError` when the widths differ.
        """
        if quantised.ndim != 2 or quantised.shape[1] != self._mapped.shape[0]:
            raise FeatureError(
                f"features: {quantised.shape} and a map of {self._mapped.shape}; "
                "give (n, d) and (d, M)"
            )
        result = np.empty((len(quantised), self._mapped.shape[1]), np.uint8)
        for start in range(0, len(quantised), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            product = np.matmul(quantised[block].astype(self._mapped.dtype), self._mapped)
            _round_rows(product, self._levels, result[block])
        return result


def project_integer(
    quantised: npt.NDArray[np.int8], matrix: npt.NDArray[np.int8], bits: int
) -> npt.NDArray[np.uint8]:
    """Return h (n x M) from q (n x d) and the map R (d x M), as `IntegerProjection` does."""
    return IntegerProjection(matrix, bits)(quantised)


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


def _round_rows(product: npt.NDArray[Any], levels: int, result: npt.NDArray[np.uint8]) -> None:
    """Write h of each row of q R into `result`, a few rows at a time: those fit into cache."""
    rounded = _round_by_float64 if product.dtype == np.float32 else _round_by_int64
    for start in range(0, len(product), _ROUNDED_ROWS):
        rows = slice(start, start + _ROUNDED_ROWS)
        result[rows] = rounded(np.maximum(product[rows], 0), levels)


def _round_by_float64(positive: npt.NDArray[Any], levels: int) -> npt.NDArray[np.float64]:
    """Return (2 a Q + m) / (2 m), which becomes h when its fraction is cut off.

    With a, m < 2^24 the numerator is exact. The quotient is no nearer below an integer than
    1 / (2 m) > 2^-26, unless it is one, so its rounding never reaches the next integer.
    """
    quotient = positive.astype(np.float64)
    largest = quotient.max(axis=1, keepdims=True, initial=0)
    largest[largest == 0] = 1
    quotient *= 2 * levels
    quotient += largest
    quotient /= 2 * largest
    return quotient


def _round_by_int64(positive: npt.NDArray[Any], levels: int) -> npt.NDArray[np.int64]:
    """Return (2 a Q + m) // (2 m) for a beyond 2^24."""
    whole = positive.astype(np.int64)
    largest = whole.max(axis=1, keepdims=True, initial=0)
    largest = np.where(largest == 0, 1, largest)
    return np.asarray((2 * levels * whole + largest) // (2 * largest), np.int64)
