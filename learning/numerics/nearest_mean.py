"""Nearest mean of exemplars: a sample is of the class whose mean points most nearly its way.

    mu_c = mean of f / |f| over the exemplars of class c, at length 1
    class of x = argmin_c | f / |f| - mu_c | = argmax_c <f / |f|, mu_c>   (iCaRL, CVPR 2017)

Where exemplars lie on many devices, each sends the sum of its f / |f| by class and their number.
Entries are whole steps of 2^-30, so sums are exact and their order does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.feature_rows import Floats, unit_rows

Integers = npt.NDArray[np.int64]

UNIT_EXPONENT = -30
"""Of the steps of an entry of f / |f|; 2^32 samples can be added."""


def unit_sums(
    features: npt.NDArray[Any], labels: Integers, classes: int
) -> tuple[ScaledIntegers, Integers]:
    """Return the sum of f / |f| of every class (C, d), and its number of samples (C,).

    `labels` (n,) are below `classes`. Raises `FeatureError` for NaN or infinity.
    """
    rounded = ScaledIntegers.rounded(unit_rows(features), UNIT_EXPONENT, bits=32)
    sums = np.zeros((classes, features.shape[1]), np.int64)
    np.add.at(sums, labels, rounded.values)
    counts = np.bincount(labels, minlength=classes).astype(np.int64)
    return ScaledIntegers(sums, UNIT_EXPONENT), counts


def class_directions(sums: ScaledIntegers) -> Floats:
    """Return mu (C, d) of the sums of f / |f|: dividing by the number changes no direction.

    Of a class without a sample it is zero.
    """
    return unit_rows(sums.to_float())
