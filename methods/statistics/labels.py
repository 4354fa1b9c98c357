"""Labelled samples on a device, on their way into a contribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]


def check_samples(
    assignment: StatisticsAssignment, features: npt.NDArray[Any], labels: Sequence[str]
) -> None:
    """Raise `MethodError` unless features are (n, M) with a label each, and a part may have n."""
    if features.ndim != 2 or features.shape[1] != assignment.columns:
        raise MethodError(f"features: shape {features.shape}; give (n, {assignment.columns})")
    if len(labels) != len(features):
        raise MethodError(
            f"labels: {len(labels)} for {count_of(len(features), 'sample')}; give one each"
        )
    most = assignment.settings.max_samples_per_part
    if not 1 <= len(features) <= most:
        raise MethodError(
            f"features: {count_of(len(features), 'sample')}; give 1 to {most} per part"
        )


def index_classes(
    assignment: StatisticsAssignment, labels: Sequence[str]
) -> tuple[tuple[ClassName, ...], Integers]:
    """Return the names that occur, sorted, and each sample's index among them, (n,).

    Raises `MethodError` for a label that is no class name or was not assigned.
    """
    try:
        cleaned = {label: ClassName(label) for label in set(labels)}
    except InvalidValueError as error:
        raise MethodError(f"labels: {error}") from error
    names = tuple(sorted(set(cleaned.values())))
    unknown = sorted(set(names) - set(assignment.class_names)) if assignment.class_names else []
    if unknown:
        raise MethodError(
            f"labels: {unknown[0]!r} was not assigned; hold these samples back until it is named"
        )
    index = {label: names.index(name) for label, name in cleaned.items()}
    return names, np.array([index[label] for label in labels], np.int64)


def count_classes(
    assignment: StatisticsAssignment, names: Sequence[ClassName], classes: Integers
) -> Integers:
    """Return the samples of each class, (C,); raise `MethodError` where there are too few of one.

    `classes` (n,) has each sample's index among `names`.
    """
    counts = np.bincount(classes, minlength=len(names)).astype(np.int64)
    least = assignment.settings.min_samples_per_class
    if (counts < least).any():
        index = int(counts.argmin())
        raise MethodError(
            f"labels: {counts[index]} of class {names[index]!r}, whose sum would tell its features;"
            f" hold them back until there are {least}"
        )
    return counts
