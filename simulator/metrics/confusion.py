"""Counts of who is taken for whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def count_pairs(rows: Counts, columns: Counts, size: int) -> Counts:
    """Return how often each pair occurs, (size, size); one whose column is no class is left out."""
    inside = (columns >= 0) & (columns < size)
    pairs = rows[inside] * size + columns[inside]
    return np.bincount(pairs, minlength=size * size).reshape(size, size).astype(np.int64)
