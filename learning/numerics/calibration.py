"""Fitting the inverse temperature of a head without moving an image.

Softmax of ridge scores is nearly flat; `logit_scale` times the scores is not. The best scale has
the smallest summed negative log-likelihood of images whose class is known:

    L(s) = sum over images of ( ln sum_c exp(s x_c)  -  s x_y )

which is convex in s. Every device sends L on a fixed grid of scales; sums of the devices' L are
those of the pooled images. They travel as whole numbers of 2^-16 nats, rounded per image, so the
sum is exact and independent of its order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError

LOGIT_SCALES: tuple[float, ...] = tuple(2.0 ** (step / 2) for step in range(21))
"""The grid: from 1 to 1024 in steps of the square root of 2."""
TRAINED_SCALE = 1.0
"""The scale of trained networks: their losses take the softmax of the scores as they are."""
LOSS_UNIT = 2.0**-16
"""Nats of one unit of a loss."""


def summed_losses(scores: npt.NDArray[Any], rows: Sequence[int]) -> tuple[int, ...]:
    """Return L for each scale of the grid, in `LOSS_UNIT`, from scores (n, C) and true rows (n,).

    Raises `FeatureError` for scores that are not finite or do not fit the rows.
    """
    if scores.ndim != 2 or len(scores) != len(rows):
        raise FeatureError(f"scores: shape {scores.shape}, rows {len(rows)}; give (n, C) and n")
    if not np.isfinite(scores).all():
        raise FeatureError("scores: NaN or infinite; install the model again")
    if not len(rows):
        return (0,) * len(LOGIT_SCALES)
    above = scores.astype(np.float64)
    above = above - above[np.arange(len(rows)), list(rows)][:, None]
    return tuple(int(np.rint(_losses(above, scale) / LOSS_UNIT).sum()) for scale in LOGIT_SCALES)


def add_losses(losses: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of several devices' losses, scale by scale."""
    return tuple(sum(column) for column in zip(*losses, strict=True))


def best_scale(losses: Sequence[int]) -> float:
    """Return the scale with the smallest loss, the smaller one of equals."""
    return LOGIT_SCALES[min(range(len(losses)), key=losses.__getitem__)]


def _losses(above: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
    """Return the losses (n,) at one scale; `above` are scores minus the true row's score."""
    logits = scale * above
    largest = logits.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0])
