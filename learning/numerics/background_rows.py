"""A segmentation head that grows out of its background row (MiB, Cermelli et al., CVPR 2020).

    w_new = w_bg        b_new = b_bg - ln(K + 1)        b_bg becomes b_bg - ln(K + 1)

K new classes and background then share what background had, and no other probability changes: the
pixels of the new classes were background to the old model.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.errors import NetworkError


def grown_from_background(
    weight: npt.NDArray[Any], bias: npt.NDArray[Any], new: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return `weight` (C, ...) and `bias` (C,) with `new` rows more; row 0 is background.

    Raises `NetworkError` for a head without a background row, or one of other rows than biases.
    """
    if bias.ndim != 1 or not len(bias) or len(weight) != len(bias):
        raise NetworkError(
            f"head: weight has shape {weight.shape} and bias {bias.shape}; give a row and a bias "
            "for background and each class"
        )
    rows = np.repeat(weight[:1], new, axis=0)
    shared = np.asarray(bias[:1] - log(new + 1), bias.dtype)
    biases = np.concatenate([shared, bias[1:], np.repeat(shared, new)])
    return np.concatenate([weight, rows]), biases
