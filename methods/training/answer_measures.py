"""How each answer of a round lies beside the others: its length, and its cosine to their mean.

    u_k = theta_k - theta               T = sum_j n_j u_j, as exact integers
    cos_k = u_k (T - n_k u_k) / |u_k| |T - n_k u_k|

What an honest device learned has something in common with what the others learned, so its cosine
is above zero, or near it in wide networks; a turned update has it below. A length tells updates
that are blown up. Neither sees an attack that hides among honest moves, and a device with classes
of its own may lie far from the others without harming anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import AnswerMeasure, CountedUpdate


def measured(
    frame: UpdateFrame, updates: Sequence[CountedUpdate], *, weighted: bool
) -> tuple[AnswerMeasure, ...]:
    """Return how updates of a round lie beside each other, in their order.

    Reads each of them twice, so memory does not grow with their number. `frame` has no bound.
    Raises `ContributionError` for what is no answer.
    """
    shares = [update.samples if weighted else 1 for update in updates]
    total = np.zeros(frame.grid.size, np.int64)
    for update, share in zip(updates, shares, strict=True):
        total += frame.norm.moved(frame.values(update.read())) * np.int64(share)
    found = []
    for update, share in zip(updates, shares, strict=True):
        moved = frame.norm.moved(frame.values(update.read()))
        own = moved * frame.lengths
        others = (total - moved * np.int64(share)) * frame.lengths
        found.append(AnswerMeasure(frame.norm.length(moved), _cosine(own, others)))
    return tuple(found)


def _cosine(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float | None:
    lengths = float(np.dot(one, one)) * float(np.dot(other, other))
    if lengths == 0:
        return None
    return max(-1.0, min(1.0, float(np.dot(one, other)) / sqrt(lengths)))
