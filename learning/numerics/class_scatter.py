"""The Gram matrix of samples in two parts: scatter within classes, and the means of classes.

    H^T H = sum_c sum_(i in c) (h_i - m_c)(h_i - m_c)^T + sum_c P_c P_c^T / n_c

The scatter is that of Helmert's contrasts: w_k = (h_1 + .. + h_k - k h_(k+1)) / sqrt(k (k + 1)) for
k = 1 .. n_c - 1, which are n_c - 1 orthonormal combinations of the samples of class c.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BLOCK = 1024


def class_contrasts(
    features: npt.NDArray[np.floating], classes: npt.NDArray[np.integer], count: int
) -> Iterator[Floats]:
    """Yield the contrasts of `features` H (n x M), class by class, in blocks of rows of float64.

    `classes` (n,) holds each row's class, from 0 to `count` - 1. There are n - C rows in all. Sums
    are exact for integer features.
    """
    for index in range(count):
        rows = features[classes == index]
        if not len(rows):
            continue
        total = rows[0].astype(np.float64)
        for start in range(1, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK].astype(np.float64)
            place = np.arange(start, start + len(block), dtype=np.float64)[:, None]
            sums = np.cumsum(block, axis=0)
            before = total + sums - block
            total = total + sums[-1]
            yield (before - place * block) / np.sqrt(place * (place + 1))


def mean_rows(sums: Integers, counts: Integers, finest: int) -> Floats:
    """Return v_c = P_c / sqrt(n_c) (C x M) as integers in steps of 2^finest, in float64.

    `sums` is P^T (C x M). Root, quotient and rounding are IEEE 754's, so every machine agrees.
    """
    lengths = np.sqrt(counts.astype(np.float64))[:, None]
    return np.asarray(np.rint(np.ldexp(sums.astype(np.float64) / lengths, -finest)))
