"""The head of a dense network: a row for the background and one per class, which grow by name.

A pixel's score is that of the linear head for its features: z_c = w_c . f + b_c. Row 0 is the
background. In a later task pixels of a new class were background before, so new rows take part of
its probability (Cermelli et al., CVPR 2020, as FBL uses it):

    w_new = w_bg,   b_new = b_bg - ln(K_new + 1),   b_bg = b_bg - ln(K_new + 1)

Right after it the new classes and the background together have the probability that the background
had, and all other probabilities are as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.head import BIAS, WEIGHT, initial_head
from fleetledger.learning.networks.plan import Arrays

BACKGROUND = "background"
"""Name of row 0, from which its first weights are drawn; no class may have it."""


def initial_pixel_head(width: int, class_names: Sequence[str], seed: int) -> Arrays:
    """Return a head with a row for the background and for each class, drawn by their names.

    Raises `NetworkError` where a name comes twice or is the background's.
    """
    if BACKGROUND in class_names:
        raise NetworkError(f"classes: {BACKGROUND!r} is row 0 already; give the class another name")
    return initial_head("linear", width, (BACKGROUND, *class_names), seed)


def grow_from_background(
    arrays: Mapping[str, npt.NDArray[Any]], count: int
) -> dict[str, npt.NDArray[Any]]:
    """Return all of a network's `arrays` with `count` rows more, made of the background's.

    Raises `NetworkError` where `arrays` hold no head with a background row.
    """
    if WEIGHT not in arrays or BIAS not in arrays or not len(arrays[WEIGHT]):
        raise NetworkError(f"head: {WEIGHT!r} and {BIAS!r} lack row 0; give a whole network")
    weight, bias = arrays[WEIGHT], arrays[BIAS].copy()
    bias[0] -= np.asarray(log(count + 1), bias.dtype)
    return {
        **arrays,
        WEIGHT: np.concatenate([weight, np.repeat(weight[:1], count, axis=0)]),
        BIAS: np.concatenate([bias, np.repeat(bias[:1], count)]),
    }
