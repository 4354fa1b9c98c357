"""Labels of samples: one class each, or how much each shows of every class.

Labels are int64, (N,) where every sample has one class, and (N, C) where a sample may show several:
the amount of each class in it, such as pixels of its mask, 0 for what it does not show. The
functions here take either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import DatasetError

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]


def showing(labels: Labels, classes: Sequence[int]) -> NDArray[np.bool_]:
    """Return which samples show any of these classes, (N,)."""
    if labels.ndim == 1:
        return np.isin(labels, classes)
    return np.asarray(labels[:, list(classes)].any(axis=1), np.bool_)


def samples_of(labels: Labels, classes: Sequence[int]) -> Indices:
    """Return the samples that show any of these classes, ascending."""
    return np.flatnonzero(showing(labels, classes)).astype(np.int64)


def count_samples(labels: Labels, classes: int) -> Indices:
    """Return the number of samples that show each class, (C,); those below 0 are left out."""
    if labels.ndim == 1:
        return np.bincount(labels[labels >= 0], minlength=classes).astype(np.int64)
    return np.asarray((labels > 0).sum(axis=0), np.int64)


def first_of_every_class(labels: Labels, per_class: int) -> Indices:
    """Return the first `per_class` samples that show each class, ascending.

    A class of samples that show several may come to more.
    """
    if labels.ndim == 2:
        shown = labels > 0
        first_ones = shown & (shown.cumsum(axis=0) <= per_class)
        return np.flatnonzero(first_ones.any(axis=1)).astype(np.int64)
    first = [np.flatnonzero(labels == label)[:per_class] for label in np.unique(labels)]
    return np.sort(np.concatenate([np.empty(0, np.int64), *first])).astype(np.int64)


def without_samples_of(labels: Labels, classes: Sequence[int]) -> Labels:
    """Return labels (N, C) in which samples that show any of these classes show nothing."""
    return np.where(showing(labels, classes)[:, np.newaxis], 0, labels)


def stratified_split(labels: Labels, test_share: float, seed: int) -> tuple[Indices, Indices]:
    """Return the indices of training and test samples, ascending, of every class the same share.

    The share is rounded per class; the same seed gives the same split. Raises `DatasetError` unless
    `test_share` is in (0, 1).
    """
    if not 0 < test_share < 1:
        raise DatasetError(f"test_share: {test_share} is not a share; give one between 0 and 1")
    random = np.random.default_rng(seed)
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        chosen.append(members[: round(test_share * len(members))])
    test = np.sort(np.concatenate(chosen)).astype(np.int64)
    return np.setdiff1d(np.arange(len(labels)), test), test
