"""STSA on a device: one pass over local samples gives statistics, and that is all it sends.

    finish   G_k = H_k^T H_k and P_k = H_k^T Y_k (section 4 of the paper), as integers

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.errors import LearningError
from learning.numerics.compact import CompactFactor, factor, round_factor
from learning.numerics.exact_sum import ScaledIntegers, smallest_exponent
from learning.numerics.gram import check_integers, class_sums, gram_triangle
from learning.numerics.triangles import pack_upper
from methods.errors import MethodError
from methods.stsa.assignment import TRIANGLE_BITS, read_assignment
from methods.stsa.messages import LocalStatistics, StsaAssignment, encode_statistics
from schemas.errors import InvalidValueError
from schemas.values import ClassName, Digest

__all__ = ["StsaContribution", "compute_statistics", "finish", "read_assignment"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StsaContribution:
    """A payload with its digest and the number of samples per class."""

    payload: bytes
    digest: Digest
    samples: dict[ClassName, int]


def finish(
    assignment: StsaAssignment, features: npt.NDArray[Any], labels: Sequence[str]
) -> StsaContribution:
    """Return the contribution of `features` h (n x M) with one class name per sample.

    `features` is what `frozen.onnx` puts out: integers held in float32, or in any integer type;
    behind the Gaussian map floats. Raises `MethodError` naming what is wrong: another shape, values
    that are no features, a label that is no class name or was not assigned, more samples than a
    part may have.
    """
    try:
        statistics = compute_statistics(assignment, features, labels)
    except (LearningError, InvalidValueError) as error:
        raise MethodError(str(error)) from error
    payload = encode_statistics(statistics)
    return StsaContribution(payload, Digest.of(payload), statistics.samples_per_class)


def compute_statistics(
    assignment: StsaAssignment, features: npt.NDArray[Any], labels: Sequence[str]
) -> LocalStatistics:
    """Return the statistics of `features` (n x M) with one class name per sample.

    Raises `LearningError`, `MethodError` or `InvalidValueError` as `finish` tells.
    """
    _check_shape(assignment, features, labels)
    names, classes = _classes(assignment, labels)
    counts = np.bincount(classes, minlength=len(names)).astype(np.int64)
    if assignment.integer:
        H = check_integers(features, assignment.lowest, assignment.settings.largest)
        correlation = ScaledIntegers(class_sums(H, classes, len(names)))
        return LocalStatistics(names, counts, correlation, _integer_gram(assignment, H))
    H64 = _finite(features)
    sums = np.stack([H64[classes == index].sum(axis=0) for index in range(len(names))])
    gram = _rounded(assignment, pack_upper(H64.T @ H64))
    return LocalStatistics(names, counts, _rounded(assignment, sums), gram)


def _check_shape(
    assignment: StsaAssignment, features: npt.NDArray[Any], labels: Sequence[str]
) -> None:
    if features.ndim != 2 or features.shape[1] != assignment.columns:
        raise MethodError(f"features: shape {features.shape}; give (n, {assignment.columns})")
    if len(labels) != len(features):
        raise MethodError(f"labels: {len(labels)} for {len(features)} samples; give one each")
    most = assignment.settings.max_samples_per_part
    if not 1 <= len(features) <= most:
        raise MethodError(f"features: {len(features)} samples; give 1 to {most} per part")


def _classes(
    assignment: StsaAssignment, labels: Sequence[str]
) -> tuple[tuple[ClassName, ...], npt.NDArray[np.int64]]:
    """Return the names that occur, sorted, and each sample's index among them."""
    cleaned = {label: ClassName(label) for label in set(labels)}
    names = tuple(sorted(set(cleaned.values())))
    unknown = sorted(set(names) - set(assignment.class_names)) if assignment.class_names else []
    if unknown:
        raise MethodError(
            f"labels: {unknown[0]!r} was not assigned; hold these samples back until it is named"
        )
    index = {label: names.index(name) for label, name in cleaned.items()}
    return names, np.array([index[label] for label in labels], np.int64)


def _integer_gram(
    assignment: StsaAssignment, features: npt.NDArray[np.float32]
) -> ScaledIntegers | CompactFactor:
    if assignment.settings.form == "compact":
        return round_factor(factor(features), assignment.row_steps)
    return ScaledIntegers(gram_triangle(features, assignment.settings.largest))


def _finite(features: npt.NDArray[Any]) -> Floats:
    numbers: Floats = features.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise MethodError("features: NaN or infinite; check the backbone and its preprocessing")
    return numbers


def _rounded(assignment: StsaAssignment, numbers: Floats) -> ScaledIntegers:
    """Return `numbers` in the finest allowed steps that hold them in 48 bits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    finest, coarsest = assignment.settings.gaussian_steps
    exponent = smallest_exponent(largest, TRIANGLE_BITS, finest, coarsest)
    return ScaledIntegers.rounded(numbers, exponent, TRIANGLE_BITS)
