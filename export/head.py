"""`head.onnx`: the one file that a new class moves; scores and probabilities from features.

Where sums told it, it also says how new a sample is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.schemas.models import FEATURES, NOVELTY, PROBABILITIES, SCORES

DEFAULT_LOGIT_SCALE = 10.0
"""Ridge scores are nearly flat under a plain softmax; ten spreads them."""


class Head(Protocol):
    """What makes scores of features: as an ONNX file, and by a computation that shares no code."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of scores and of features, (C, M)."""

    def file(self, logit_scale: float) -> bytes:
        """Return `head.onnx`: input `features`, outputs `scores` and `probabilities`."""

    def expected(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the scores (N, C) of features (N, M), computed in float64 with NumPy."""


@dataclass(frozen=True, eq=False)
class RowsHead:
    """A row of weights for each class: scores = h W^T."""

    weights: npt.NDArray[Any]
    """W (C, M), as solved."""
    novelty: ScoreNovelty | None = None
    """What makes the output `novelty` of its scores; None for none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return self.weights.shape

    def file(self, logit_scale: float) -> bytes:
        """Return `build_head` of the weights."""
        return build_head(self.weights, logit_scale, self.novelty)

    def expected(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return h W^T in float64."""
        return np.asarray(features.astype(np.float64) @ self.weights.astype(np.float64).T)


def build_head(
    weights: npt.NDArray[Any],
    logit_scale: float = DEFAULT_LOGIT_SCALE,
    novelty: ScoreNovelty | None = None,
) -> bytes:
    """Return the ONNX model of a linear head; equal weights give equal bytes.

    `weights` (C, M) are stored as float32, one row per class. Input `features` (N, M); outputs
    `scores` = h W^T and `probabilities` = softmax(logit_scale * scores), both (N, C) float32, and
    with `novelty` an output of that name (N, 1), `ScoreNovelty.of_scores`.
    Raises `ModelFileError` for a wrong shape, NaN, infinity or a scale that is not positive.
    """
    stored = _checked(weights)
    builder = GraphBuilder()
    matrix = builder.constant("weights", stored, np.float32)
    builder.add("Gemm", FEATURES, matrix, output=SCORES, transB=1)
    classes, width = stored.shape
    return finish_head(builder, classes, width, logit_scale, novelty)


def finish_head(
    builder: GraphBuilder,
    classes: int,
    width: int,
    logit_scale: float,
    novelty: ScoreNovelty | None = None,
) -> bytes:
    """Return the head's file of a graph that makes `scores` (N, C) of `features` (N, width).

    Adds `probabilities`, and `novelty` where that is known. Raises `ModelFileError` for a scale
    that is not positive.
    """
    if not (math.isfinite(logit_scale) and logit_scale > 0):
        raise ModelFileError(f"logit_scale: {logit_scale!r} is not allowed; give a number above 0")
    scale = builder.constant("logit_scale", [logit_scale], np.float32)
    builder.add("Softmax", builder.add("Mul", SCORES, scale), output=PROBABILITIES, axis=1)
    outputs = [float_value(SCORES, BATCH, classes), float_value(PROBABILITIES, BATCH, classes)]
    if novelty is not None:
        _add_novelty(builder, novelty, classes)
        outputs.append(float_value(NOVELTY, BATCH, 1))
    return builder.model([float_value(FEATURES, BATCH, width)], outputs)


def _add_novelty(builder: GraphBuilder, novelty: ScoreNovelty, classes: int) -> None:
    """Add `novelty` (N, 1); symbols are those of `learning.numerics.score_novelty`."""

    def constant(name: str, values: npt.ArrayLike) -> str:
        return builder.constant(f"novelty/{name}", values, np.float32)

    scores, rows = SCORES, novelty.rows
    if not np.array_equal(rows, np.arange(classes)):
        chosen = builder.constant("novelty/rows", rows, np.int64)
        scores = builder.add("Gather", SCORES, chosen, axis=1)
    beside = builder.add("Sub", scores, constant("centre", novelty.centre))
    inside = builder.add("MatMul", beside, constant("within", novelty.within))
    square = builder.add("ReduceSumSquare", inside, axes=[1], keepdims=1)
    lengths = (novelty.means.astype(np.float64) ** 2).sum(axis=1)
    # |inside - mean|^2 of each class, without the square that all of them share.
    means = constant("means", -2 * novelty.means)
    others = builder.add("Gemm", inside, means, constant("lengths", lengths), transB=1)
    nearest = builder.add("Add", square, builder.add("ReduceMin", others, axes=[1], keepdims=1))
    outside = builder.add("MatMul", beside, constant("overall", novelty.overall))
    overall = builder.add("ReduceSumSquare", outside, axes=[1], keepdims=1)
    apart = builder.add("Sub", nearest, overall)
    steep = builder.add("Mul", apart, constant("steepness", [novelty.steepness]))
    builder.add("Sigmoid", steep, output=NOVELTY)


def head_scores(head: bytes, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the scores (N, C) that ONNX Runtime computes from features (N, M)."""
    return LoadedModel(head).run({FEATURES: features})[SCORES]


def _checked(weights: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if weights.ndim != 2 or 0 in weights.shape:
        raise ModelFileError(
            f"weights: shape {weights.shape} is no head; give (classes, features), both at least 1"
        )
    stored = weights.astype(np.float32)
    if not np.isfinite(stored).all():
        raise ModelFileError(
            "weights: NaN, infinite or too large for float32; solve again with more regularisation"
        )
    return stored
