"""A linear head as a method of statistics solves it, with a row for every registered class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.errors import MethodError
from fleetledger.schemas.values import ClassName

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Scores = h W^T.

    `weights` is float32 (C, M) with rows in the order of `class_names`; a class without data has a
    row of zeros. `remarks` is what an operator should know of it, `novelty` what tells from scores
    how new a sample is.
    """

    weights: npt.NDArray[np.float32]
    class_names: tuple[ClassName, ...]
    remarks: tuple[str, ...] = field(default=(), kw_only=True)
    novelty: ScoreNovelty | None = field(default=None, kw_only=True)

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


def whitened_weights(weights: Floats, correlation: Floats) -> Floats:
    """Return W (M x C) = (G + l I)^-1 P with every column w_c divided by sqrt(P_c . w_c).

    That is the length of P_c where G + l I measures, so a score is, but for a factor that all
    classes share, the cosine between h and the class's mean after whitening, as speaker recognition
    does with within-class covariances (Hatch, Kajarekar and Stolcke, Interspeech 2006). The factor
    keeps the sum of samples' scores for their own classes. Columns of zeros stay.
    """
    squares = np.maximum((weights * correlation).sum(axis=0), 0.0)
    lengths = np.sqrt(squares)
    factor = squares.sum() / lengths.sum() if lengths.any() else 1.0
    return np.asarray(weights * (factor / np.where(lengths > 0, lengths, 1.0)))


def rows_in_order(
    solved: Mapping[ClassName, npt.NDArray[Any]], class_order: Sequence[ClassName], columns: int
) -> npt.NDArray[np.float32]:
    """Return W (C, M) with the rows that were solved, and zeros for classes without data.

    Raises `MethodError` when the order lacks a class that has data or names one twice.
    """
    missing = sorted(set(solved) - set(class_order))
    if missing:
        raise MethodError(f"class_order: {missing[0]!r} has data but no index; register it first")
    if len(set(class_order)) != len(class_order):
        raise MethodError("class_order: a class is named twice; give each one index")
    weights = np.zeros((len(class_order), columns), np.float32)
    for row, name in enumerate(class_order):
        if name in solved:
            weights[row] = solved[name]
    return weights
