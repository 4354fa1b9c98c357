"""Parity: the exported pair, run in ONNX Runtime, against the coordinator's own prediction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ParityError
from fleetledger.export.head import Head, head_scores
from fleetledger.export.runtime import LoadedModel, describe_runtime
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.models import FEATURES, NOVELTY, SCORES, Parity

DEFAULT_TOLERANCE = 1e-3
"""Ridge scores lie around 0 to 1; float32 sums of 5,000 terms differ by some 1e-5."""
NOVELTY_TOLERANCE = 1e-2
"""Novelty lies from 0 to 1, and squares of far samples are large: a level of detection is 1/256."""


def measure_parity(file: bytes, head: Head, features: npt.NDArray[np.float32]) -> Parity:
    """Compare the scores of a head's file with those that the head expects, in float64.

    `features` are (N, M), N at least 1.
    """
    scores = head_scores(file, features)
    expected = head.expected(features)
    same = scores.argmax(axis=1) == expected.argmax(axis=1)
    return Parity(
        max_absolute_difference=float(np.abs(scores - expected).max()),
        agreement=float(same.mean()),
        samples=len(features),
        runtime=describe_runtime(),
    )


def require_novelty(file: bytes, novelty: ScoreNovelty, features: npt.NDArray[np.float32]) -> None:
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
