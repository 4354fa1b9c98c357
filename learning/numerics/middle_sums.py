"""Trimmed mean and median of integers: sums of the middle values, without rounding.

    S = q_(t+1) + ... + q_(k-t)      of each number the k values in order, t cut at each end
    theta = S / (k - 2t) * 2^e       the trimmed mean; with t = floor((k - 1) / 2) the median

Each answer counts once, whatever its samples: their number is a claim of the device, and with it
one device could be more than what is cut. Equal values are one another's equals, so neither the
order of answers nor that of ties changes a sum. Yin et al., "Byzantine-Robust Distributed
Learning: Towards Optimal Statistical Rates", ICML 2018.

All answers are needed, and no sum of them does: see `answer_rows`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.grids import Integers

Steps64 = npt.NDArray[np.int64]


def cut_at_each_end(answers: int, share: float) -> int:
    """Return how many of the least and of the largest values a share below a half leaves out.

    It is at least one of three answers or more, as one may be anybody's.
    """
    return max(int(Fraction(str(share)) * answers), 1) if answers > 2 else 0


def cut_to_median(answers: int) -> int:
    """Return how many to cut at each end so that one value is left, or two."""
    return (answers - 1) // 2


def middle_sum(rows: Integers, cut: int) -> Steps64:
    """Return the sum (b,) of each column's values in rows (k, b), without `cut` at each end."""
    found: Steps64
    if cut == 0:
        found = rows.sum(axis=0, dtype=np.int64)
        return found
    columns = np.ascontiguousarray(rows.T)
    columns.sort(axis=1)
    middle = np.ascontiguousarray(columns.T)[cut : len(rows) - cut]
    found = middle.sum(axis=0, dtype=np.int64)
    return found
