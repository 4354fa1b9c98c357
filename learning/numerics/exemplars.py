"""Exemplars as FedHAF chooses them: the samples nearest to their class's mean, so many per class.

    (6)   mu_c = mean of phi(x) over the samples of class c; those with the smallest
          | phi(x) - mu_c | are kept, ceil(rho n_c) of n_c

Unlike herding (`learning.numerics.herding`) no sample's choice depends on another's. A prefix of
the list is the list of fewer, so a memory shrinks by cutting.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.feature_rows import finite_rows

Name = TypeVar("Name")


def nearest_to_mean(features: npt.NDArray[Any], count: int) -> list[int]:
    """Return at most `count` rows of `features` (n, d), those nearest to the mean of all first.

    Of equally near samples the first counts. Raises `FeatureError` for NaN or infinity.
    """
    values = finite_rows(features)
    if not len(values):
        return []
    squares = np.square(values - values.mean(axis=0)).sum(axis=1)
    return [int(row) for row in np.argsort(squares, kind="stable")[:count]]


def exemplar_count(samples: int, ratio: float) -> int:
    """Return ceil(rho n), of the ratio as it is written: 0.07 of 100 are 7.

    Raises `RangeError` for a ratio that is not above 0 and at most 1.
    """
    if not 0 < ratio <= 1:
        raise RangeError(f"ratio: {ratio} of a class's samples; give more than 0 and at most 1")
    return ceil(Fraction(str(ratio)) * samples)


def shrunk(counts: Mapping[Name, int], capacity: int) -> dict[Name, int]:
    """Return `counts` made smaller in proportion, so that they add up to at most `capacity`.

    What is left after rounding down goes to the largest remainders; of equal ones the first counts.
    """
    total = sum(counts.values())
    if total <= capacity:
        return dict(counts)
    smaller = {name: count * capacity // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: -(counts[name] * capacity % total))
    for name in by_remainder[: capacity - sum(smaller.values())]:
        smaller[name] += 1
    return smaller
