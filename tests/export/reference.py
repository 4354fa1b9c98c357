"""The integer features, one number at a time in Python's exact integers."""

from typing import Any

import numpy as np


def slow_quantise(features: np.ndarray) -> list[list[int]]:
    rows = []
    for sample in features.astype(np.float32):
        largest = max(abs(value) for value in sample)
        if largest == 0:
            rows.append([0] * len(sample))
            continue
        rows.append([int(np.rint(value / largest * np.float32(127))) for value in sample])
    return rows


def slow_project(quantised: list[list[int]], matrix: Any, feature_bits: int) -> list[list[int]]:
    columns = [[int(entry) for entry in column] for column in np.asarray(matrix).T]
    levels = 2**feature_bits - 1
    rows = []
    for sample in quantised:
        sums = [sum(q * r for q, r in zip(sample, column, strict=True)) for column in columns]
        positive = [max(value, 0) for value in sums]
        largest = max(positive)
        rows.append(
            [(2 * a * levels + largest) // (2 * largest) if largest else 0 for a in positive]
        )
    return rows
