"""Corrections of a head whose new rows lean towards their classes: none looks at the body.

WA, Zhao et al., "Maintaining Discrimination and Fairness in Class Incremental Learning", CVPR 2020:

    gamma = mean of |w_c| over old classes / mean of |w_c| over new classes
    o_corrected = (W_old^T phi, gamma W_new^T phi)

BiC, Wu et al., "Large Scale Incremental Learning", CVPR 2019, on samples that were held out:

    q_k = o_k of old classes, alpha o_k + beta of new ones
    L_b = - mean of ln softmax(q)_y, minimised over alpha and beta alone
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]

PULL = 1e-3
"""Half of it times (alpha - 1)^2 + beta^2 is added to L_b, so that samples that any alpha can tell
apart have a smallest loss too."""
_STEPS, _SLOPE = 100, 1e-9


def aligned(rows: npt.NDArray[Any], old: int) -> Rows:
    """Return rows (C, d), of which the first `old` stay and the others are gamma times as long.

    All stay where there are no old or no new rows, or the new ones are zero. Sums are exact: equal
    rows give equal bits on every machine.
    """
    lengths = [sqrt(fsum(row * row)) for row in rows.astype(np.float64)]
    if not 0 < old < len(rows) or not any(lengths[old:]):
        return np.asarray(rows, np.float32)
    gamma = fsum(lengths[:old]) / old * (len(rows) - old) / fsum(lengths[old:])
    return np.concatenate([rows[:old], gamma * rows[old:].astype(np.float64)]).astype(np.float32)


def fitted_bias(
    scores: npt.NDArray[Any], targets: npt.NDArray[np.integer[Any]], old: int
) -> tuple[float, float]:
    """Return alpha and beta of scores (n, C), whose first `old` classes stay; n is at least 1.

    The loss is convex in both, so Newton's method with halved steps finds its only minimum.
    """
    given = scores.astype(np.float64)
    slopes = np.zeros((2, *given.shape))
    slopes[0, :, old:], slopes[1, :, old:] = given[:, old:], 1.0
    point, start = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    rows = np.arange(len(given))

    def loss(at: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        moved = given + np.tensordot(at - start, slopes, 1)
        logs = moved - moved.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return float(PULL / 2 * np.square(at - start).sum() - logs[rows, targets].mean()), logs

    value, logs = loss(point)
    for _ in range(_STEPS):
        shares = np.exp(logs)
        means = (shares * slopes).sum(axis=2)
        gradient = PULL * (point - start) + (means - slopes[:, rows, targets]).mean(axis=1)
        if np.abs(gradient).max() < _SLOPE:
            break
        squares = np.einsum("nc,inc,jnc->ij", shares, slopes, slopes) - means @ means.T
        step = np.linalg.solve(squares / len(given) + PULL * np.eye(2), gradient)
        while (found := loss(point - step))[0] > value and np.abs(step).max() > _SLOPE:
            step /= 2
        point, (value, logs) = point - step, found
    return float(point[0]), float(point[1])
