"""Features as rows of numbers that can be reckoned with: finite, and at length 1 where asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError

Floats = npt.NDArray[np.float64]


def finite_rows(features: npt.NDArray[Any]) -> Floats:
    """Return `features` (n, d) as float64; raise `FeatureError` for NaN, infinity or other axes."""
    if features.ndim != 2 or not np.isfinite(features).all():
        raise FeatureError(f"features: {features.shape}; give finite numbers of shape (n, d)")
    return features.astype(np.float64)


def unit_rows(features: npt.NDArray[Any]) -> Floats:
    """Return `features` (n, d) row by row at length 1; a row of length 0 stays.

    Raises `FeatureError` as `finite_rows` does.
    """
    values = finite_rows(features)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(lengths == 0, 1, lengths))
