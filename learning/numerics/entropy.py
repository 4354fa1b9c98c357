"""Probabilities and how uncertain they are, from a head's scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def softmax(scores: npt.NDArray[Any], logit_scale: float = 1.0) -> Floats:
    """Return probabilities (n x C) = softmax of `logit_scale` * `scores` along the last axis.

    `logit_scale` is the inverse temperature; ridge scores are nearly flat without one.
    """
    logits = logit_scale * scores.astype(np.float64)
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def entropy(probabilities: Floats, offset: float = 0.0) -> Floats:
    """Return H = -sum p ln p in nats (n,), from 0 to ln C; 0 ln 0 counts as 0.

    With an `offset` it is -sum p ln(p + offset), as some programs keep logarithms finite: a little
    less, and a little below 0 where nothing is uncertain.
    """
    if offset:
        return np.asarray(-(probabilities * np.log(probabilities + offset)).sum(axis=-1))
    logarithms = np.log(np.where(probabilities > 0, probabilities, 1.0))
    return np.asarray(np.abs((probabilities * logarithms).sum(axis=-1)))


def relative_entropy(probabilities: Floats) -> Floats:
    """Return H / ln C (n,), from 0 (certain) to 1 (uniform); 0 for a single class."""
    classes = probabilities.shape[-1]
    if classes < 2:
        return np.zeros(probabilities.shape[:-1])
    return np.asarray(entropy(probabilities) / np.log(classes))
