"""STSA at the coordinator: check contributions, add them up, solve for the head.

    check       what a contribution must obey before it counts
    Aggregate   G~ and P~ of all data so far           equations (2) to (5)
    solve       W = (G~ + lambda I)^-1 P~              equations (7) and (8)

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.errors import LearningError
from learning.numerics.blas import platform_fingerprint
from learning.numerics.counter_generator import gaussian_map, integer_map
from learning.numerics.ridge import solve_ridge
from learning.numerics.triangles import symmetric
from methods.errors import ContributionError, MethodError
from methods.stsa.aggregate import Aggregate, aggregate_digest
from methods.stsa.assignment import read_assignment
from methods.stsa.checks import check_statistics
from methods.stsa.messages import LocalStatistics, StsaAssignment, decode_statistics
from methods.stsa.settings import StsaSettings
from schemas.canonical import canonical_json
from schemas.errors import SchemaError
from schemas.values import ClassName, Digest

__all__ = [
    "Aggregate",
    "RidgeHead",
    "aggregate_digest",
    "assign",
    "check",
    "frozen_map",
    "head_digest",
    "read_assignment",
    "solve",
]


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """A linear head: scores = h W^T, probabilities = softmax(logit_scale * scores).

    `weights` is float32 (C, M) with rows in the order of `class_names`; a class without data has a
    row of zeros. `ridge` is the lambda it was solved with, `fingerprint` the platform.
    """

    weights: npt.NDArray[np.float32]
    class_names: tuple[ClassName, ...]
    logit_scale: float
    ridge: float
    fingerprint: Mapping[str, str]

    def scores(self, features: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the scores (n x C, float64) of features h (n x M)."""
        return np.asarray(features.astype(np.float64) @ self.weights.astype(np.float64).T)

    def predict(self, features: npt.NDArray[Any]) -> list[ClassName]:
        """Return the class with the largest score for each row of `features` (n x M)."""
        return [self.class_names[index] for index in self.scores(features).argmax(axis=1)]


def assign(settings: Mapping[str, Any], feature_width: int) -> StsaAssignment:
    """Return the assignment of a lineage: an operator's settings and the backbone's width d.

    Raises `MethodError` naming the field that is wrong, or the sum that could become inexact.
    """
    return read_assignment({"settings": dict(settings), "feature_width": feature_width})


def frozen_map(
    assignment: StsaAssignment,
) -> npt.NDArray[np.int8] | npt.NDArray[np.float32] | None:
    """Return the random map R (d x M) that `frozen.onnx` applies, or None for map "none"."""
    settings, width = assignment.settings, assignment.feature_width
    if settings.map == "integer":
        return integer_map(settings.map_seed, width, settings.map_width)
    if settings.map == "gaussian":
        return gaussian_map(settings.map_seed, width, settings.map_width)
    return None


def check(assignment: StsaAssignment, payload: bytes) -> LocalStatistics:
    """Return the statistics in `payload` after checking form and numbers.

    Raises `ContributionError` naming tensor, value and way out; then nothing of it may count.
    """
    try:
        statistics = decode_statistics(payload, assignment)
        check_statistics(assignment, statistics)
    except (SchemaError, LearningError) as error:
        raise ContributionError(str(error)) from error
    return statistics


def solve(
    aggregate: Aggregate, settings: StsaSettings, class_order: Sequence[ClassName]
) -> RidgeHead:
    """Return the head for the classes of `class_order`, row by row.

    Columns of P are solved in the order of their names, so a class's weights do not depend on its
    index, nor on registered classes without data. Raises `MethodError` when the order lacks a
    class that has data or names one twice, and when the system has no stable solution.
    """
    _check_order(aggregate, class_order)
    names = sorted(aggregate.classes)
    weights = np.zeros((len(class_order), aggregate.columns), np.float32)
    if names:
        solved = _solve(aggregate, names, settings.ridge_value)
        weights[[class_order.index(name) for name in names]] = solved.T
    return RidgeHead(
        weights,
        tuple(class_order),
        settings.logit_scale,
        settings.ridge_value,
        platform_fingerprint(),
    )


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


def _check_order(aggregate: Aggregate, class_order: Sequence[ClassName]) -> None:
    missing = sorted(set(aggregate.classes) - set(class_order))
    if missing:
        raise MethodError(f"class_order: {missing[0]!r} has data but no index; register it first")
    if len(set(class_order)) != len(class_order):
        raise MethodError("class_order: a class is named twice; give each one index")


def _solve(
    aggregate: Aggregate, names: Sequence[ClassName], ridge: float
) -> npt.NDArray[np.float64]:
    """Return W (M x C) for the classes `names`."""
    gram = symmetric(aggregate.gram.to_float(), aggregate.columns)
    sums = [aggregate.classes[name].correlation.to_float() for name in names]
    try:
        return solve_ridge(gram, np.stack(sums, axis=1), ridge)
    except LearningError as error:
        raise MethodError(str(error)) from error
