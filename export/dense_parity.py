"""Parity of dense heads: every score of every pixel, a picture and a class at a time.

The scores of a picture of 513 x 513 pixels and 151 classes are 159 MB; in float64 they exist for
one class at a time only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.export.runtime import LoadedModel, describe_runtime
from fleetledger.export.segmentation import DenseHead
from fleetledger.learning.numerics.bilinear import resized
from fleetledger.schemas.models import FEATURES, SCORES, SMALL_SCORES, Parity

Floats = npt.NDArray[np.float32]


def measure_dense_parity(file: bytes, head: DenseHead, features: Floats) -> Parity:
    """Compare small scores and scores of a head's file with its formula, in float64.

    `features` are (N, M, h, w), N at least 1. The parity's samples are pixels.
    """
    model = LoadedModel(file)
    pictures = [_of_picture(model, head, picture[np.newaxis]) for picture in features]
    pixels = len(pictures) * head.size[0] * head.size[1]
    return Parity(
        max_absolute_difference=max(picture.difference for picture in pictures),
        agreement=sum(picture.agreeing for picture in pictures) / pixels,
        samples=pixels,
        runtime=describe_runtime(),
    )


@dataclass(frozen=True)
class _Compared:
    """A picture's largest difference of a score, and its pixels with the same best class."""

    difference: float
    agreeing: int


def _of_picture(model: LoadedModel, head: DenseHead, features: Floats) -> _Compared:
    found = model.run({FEATURES: features})
    small = head.expected_small(features)[0]
    compared = _compared(found[SCORES][0], small, head.size)
    differences = (_apart(found[SMALL_SCORES][0], small), compared.difference)
    # Not `max` of Python: NaN has to stay.
    return _Compared(float(np.max(differences)), compared.agreeing)


def _compared(found: Floats, small: npt.NDArray[np.float64], size: tuple[int, int]) -> _Compared:
    """Compare scores (C, H, W) with small scores (C, h, w) that are resized class by class."""
    best, best_row = np.full(size, -np.inf), np.zeros(size, np.intp)
    differences = []
    for row, scores in enumerate(found):
        expected = resized(small[row], size)
        differences.append(_apart(scores, expected))
        better = expected > best
        best[better], best_row[better] = expected[better], row
    agreeing = int((found.argmax(axis=0) == best_row).sum())
    return _Compared(float(np.max(differences)), agreeing)


def _apart(found: Floats, expected: npt.NDArray[np.float64]) -> float:
    return float(np.abs(found - expected).max())
