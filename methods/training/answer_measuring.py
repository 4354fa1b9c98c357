"""How each answer of a round lies beside the others: its cosine to theirs, and the drift.

    v_k = u_k / |u_k|                   of the move u_k = theta_k - theta
    cos_k = v_k T_k / |T_k|             T_k = sum_j v_j over the others

Directions count alike, so that a move that is blown up does not turn what others are held to. What
an honest device learned has something in common with what the others learned, so its cosine is
above zero, or near it in wide networks; a turned update has it below. A length tells updates that
are blown up. Neither sees an attack that hides among honest moves, and a device with classes of
its own may lie far from the others without harming anybody.
"""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.methods.training.client_updates import UpdateFrame

Floats = npt.NDArray[np.float64]

_NOTHING = 1e-20
"""Below which directions of length one have cancelled out."""


class AnswerMeasuring:
    """Sums over blocks of columns, of each answer by itself: the same in whatever order."""

    def __init__(self, frame: UpdateFrame, shares: npt.NDArray[np.int64], lengths: Floats) -> None:
        """Measure answers that count so much, and whose moves are so long."""
        origin = frame.norm.origin
        self._origin = origin.astype(np.float64) if len(origin) else np.zeros(frame.grid.size)
        self._lengths = frame.lengths
        self._shares = shares
        still = lengths == 0
        self._inverse = np.where(still, 0.0, 1 / np.where(still, 1.0, lengths))
        self._own, self._others, self._along, self._apart = np.zeros((4, len(shares)))
        self._step = 0.0

    def add(self, place: slice, own: Floats, middle: Floats) -> None:
        """Take in a block of all answers in steps (k, b), which changes, and what they become."""
        origin, lengths = self._origin[place], self._lengths[place]
        own -= origin
        own *= lengths
        step = (middle - origin) * lengths
        apart = own - step
        self._apart += _products(apart, apart)
        own *= self._inverse[:, None]
        others = np.subtract(own.sum(axis=0), own, out=apart)
        self._own += _products(own, own)
        self._others += _products(others, others)
        self._along += _products(own, others)
        self._step += float(np.dot(step, step))

    def drift(self) -> float:
        """Return how far answers lie apart, relative to the step: `client_drift`."""
        apart = fsum((self._apart * self._shares).tolist()) / int(self._shares.sum())
        return sqrt(apart / self._step) if self._step > 0 else 0.0

    def cosines(self) -> list[float | None]:
        """Return of each answer the cosine to the mean direction of the others."""
        return [
            max(-1.0, min(1.0, along / sqrt(own * others))) if own * others > _NOTHING else None
            for along, own, others in zip(
                self._along.tolist(), self._own.tolist(), self._others.tolist(), strict=True
            )
        ]


def _products(one: Floats, other: Floats) -> Floats:
    """Return the product of each two rows (k, b)."""
    found: Floats = np.einsum("kb,kb->k", one, other)
    return found
