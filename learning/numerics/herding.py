"""Herding: a few samples whose mean is close to the mean of all (Welling 2009; iCaRL, CVPR 2017).

    mu = mean of f / |f|
    sample k of the list minimises | mu - (sum of the k - 1 chosen + f_x / |f_x|) / k |

iCaRL brings features to length 1 before; DCID's equation (2), as printed, takes them as they are.
A prefix of the list is the list of fewer, so a memory shrinks by cutting. No sample comes twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.feature_rows import finite_rows, unit_rows


def herd(features: npt.NDArray[Any], count: int, *, normalised: bool = True) -> list[int]:
    """Return the rows of `features` (n, d) that are chosen, in order, at most `count`.

    `normalised` says whether each comes to length 1 before. Of equally good samples the first
    counts. Raises `FeatureError` for NaN or infinity.
    """
    rows = unit_rows(features) if normalised else finite_rows(features)
    target = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    total, chosen = np.zeros_like(target), []
    free = np.ones(len(rows), bool)
    for size in range(1, min(count, len(rows)) + 1):
        distances = np.linalg.norm(target - (total + rows) / size, axis=1)
        best = int(np.where(free, distances, np.inf).argmin())
        chosen.append(best)
        free[best] = False
        total = total + rows[best]
    return chosen
