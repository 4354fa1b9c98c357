"""Parity: the exported pair, run in ONNX Runtime, against the coordinator's own prediction.

Of dense heads every score of every pixel is compared, a picture and a class at a time: the scores
of a picture of 513 x 513 pixels and 151 classes are 159 MB, in float64 twice that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ParityError
from fleetledger.export.head import Head, head_scores
from fleetledger.export.runtime import LoadedModel, describe_runtime
from fleetledger.export.segmentation import DenseHead
from fleetledger.learning.numerics.bilinear import resized
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import FEATURES, NOVELTY, SCORES, SMALL_SCORES, Parity

Floats = npt.NDArray[np.float32]
DEFAULT_TOLERANCE = 1e-3
"""Ridge scores lie around 0 to 1; float32 sums of 5,000 terms differ by some 1e-5."""
NOVELTY_TOLERANCE = 1e-2
"""Novelty lies from 0 to 1, and squares of far samples are large: a level of detection is 1/256."""


def measure_parity(file: bytes, head: Head, features: Floats) -> Parity:
    """Compare the scores of a head's file with those that the head expects, in float64.

    `features` are (N, M), of a dense head (N, M, h, w), N at least 1. The samples of the parity of
    a dense head are pixels.
    """
    if isinstance(head, DenseHead):
        return _measure_pixels(file, head, features)
    scores = head_scores(file, features)
    expected = head.expected(features)
    same = scores.argmax(axis=1) == expected.argmax(axis=1)
    return Parity(
        max_absolute_difference=float(np.abs(scores - expected).max()),
        agreement=float(same.mean()),
        samples=len(features),
        runtime=describe_runtime(),
    )


def _measure_pixels(file: bytes, head: DenseHead, features: Floats) -> Parity:
    """Compare small scores and scores, a picture at a time."""
    model = LoadedModel(file)
    pictures = [_of_picture(model, head, picture[np.newaxis]) for picture in features]
    pixels = len(pictures) * head.size[0] * head.size[1]
    return Parity(
        max_absolute_difference=max(picture.difference for picture in pictures),
        agreement=sum(picture.agreeing for picture in pictures) / pixels,
        samples=pixels,
        runtime=describe_runtime(),
    )


def require_novelty(file: bytes, novelty: ScoreNovelty, features: Floats) -> None:
    """Raise `ParityError` where a head's novelty strays from that of its scores.

    `features` are (N, M).
    """
    found = LoadedModel(file).run({FEATURES: features})
    expected = novelty.of_scores(found[SCORES])
    difference = float(np.abs(found[NOVELTY][:, 0] - expected).max())
    if not difference <= NOVELTY_TOLERANCE:
        raise ParityError(
            f"novelty: strays by {difference:.3g} on {count_of(len(features), 'sample')}, more "
            f"than {NOVELTY_TOLERANCE:g}; set method.settings.novelty to 'entropy', or a larger "
            "ridge"
        )


def require_parity(
    parity: Parity,
    tolerance: float = DEFAULT_TOLERANCE,
    way_out: str = "the weights may need float64: solve with more regularisation",
) -> None:
    """Raise `ParityError`, with its way out, if the scores differ by more than `tolerance`.

    Agreement needs no limit of its own: within the tolerance only ties can change their order.
    """
    if parity.max_absolute_difference > tolerance:
        raise ParityError(
            f"max_absolute_difference: {parity.max_absolute_difference:.3g} on {parity.samples} "
            f"samples exceeds {tolerance:.3g} (best class equal for {parity.agreement:.1%}); "
            f"{way_out}"
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
