"""The head that STSA solves for: scores = h W^T, with W as solved or brought to one length."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.canonical import canonical_json
from schemas.values import ClassName, Digest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """A linear head: scores = h W^T, probabilities = softmax(logit_scale * scores).

    `weights` is float32 (C, M) with rows in the order of `class_names`; a class without data has a
    row of zeros. `ridge` is the lambda it was solved with, `fingerprint` the platform, `remarks`
    what an operator should know of it.
    """

    weights: npt.NDArray[np.float32]
    class_names: tuple[ClassName, ...]
    logit_scale: float
    ridge: float
    fingerprint: Mapping[str, str]
    remarks: tuple[str, ...] = ()

    def scores(self, features: npt.NDArray[Any]) -> Floats:
        """Return the scores (n x C, float64) of features h (n x M)."""
        return np.asarray(features.astype(np.float64) @ self.weights.astype(np.float64).T)

    def predict(self, features: npt.NDArray[Any]) -> list[ClassName]:
        """Return the class with the largest score for each row of `features` (n x M)."""
        return [self.class_names[index] for index in self.scores(features).argmax(axis=1)]


def cosine_weights(weights: Floats, feature_length: float) -> Floats:
    """Return W (M x C) with every column w brought to w / |w| / `feature_length`.

    h W is then the cosine between h and w for a sample of that length, and its ranking that of the
    cosine for every sample, because |h| scales all classes alike. Columns of zeros stay.
    """
    lengths = np.linalg.norm(weights, axis=0)
    scale = np.where(lengths > 0, lengths, 1.0) * (feature_length or 1.0)
    return np.asarray(weights / scale)


def head_digest(head: RidgeHead) -> Digest:
    """Return the SHA-256 of class names in order, logit scale and weights (float32, row by row)."""
    header = {
        "form": "ridge-head-1",
        "class_names": head.class_names,
        "logit_scale": head.logit_scale,
        "shape": head.weights.shape,
    }
    digest = hashlib.sha256(canonical_json(header) + b"\n")
    digest.update(head.weights.astype("<f4", copy=False).tobytes())
    return Digest(digest.hexdigest())
