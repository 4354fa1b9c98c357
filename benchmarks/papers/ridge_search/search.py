"""The best ridge on held-out samples: a study on pooled data, nothing that a fleet can do.

RanPAC (McDonnell et al., arXiv 2307.02251) fits on 80 % of the samples with every ridge from 1e-8
to 1e8 and takes the one whose scores are nearest to the one-hot labels of the other 20 %. A fleet
that sends sums has no held-out samples at the coordinator, so it takes a fixed ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RIDGES = tuple(10.0**power for power in range(-8, 9))
HELD_OUT = 0.2


@dataclass(frozen=True)
class Tried:
    """One ridge: mean squared error of the scores, and accuracy, on the held-out samples."""

    ridge: float
    error: float
    accuracy: float


@dataclass(frozen=True)
class RidgeSearch:
    """What came of every ridge, in the order in which they were given."""

    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """The one with the least error; the first of equals."""
        return min(self.tried, key=lambda one: one.error)


def search_ridge(
    features: npt.NDArray[Any],
    classes: Integers,
    ridges: Sequence[float] = RIDGES,
    seed: int = 0,
) -> RidgeSearch:
    """Fit on a random 80 % of `features` (n x M) with `classes` (n,), measure on the other 20 %.

    One eigendecomposition of the Gram matrix serves all ridges. Raises `FeatureError` when shapes
    differ or there are too few samples to hold one out.
    """
    samples = len(classes)
    held_out = int(HELD_OUT * samples)
    if features.ndim != 2 or len(features) != samples or not held_out:
        raise FeatureError(
            f"features: {features.shape} with {samples} classes; give (n, M) and (n,), n at least 5"
        )
    order = np.random.default_rng(seed).permutation(samples)
    test, train = order[:held_out], order[held_out:]
    labels = np.eye(int(classes.max()) + 1)[classes]
    with one_blas_thread():
        H = features[train].astype(np.float64)
        values, vectors = np.linalg.eigh(H.T @ H)
        projected = vectors.T @ (H.T @ labels[train])
        turned = features[test].astype(np.float64) @ vectors
        return RidgeSearch(
            tuple(
                _tried(ridge, turned @ (projected / (values + ridge)[:, None]), labels[test])
                for ridge in ridges
            )
        )


def _tried(ridge: float, scores: Floats, labels: Floats) -> Tried:
    right = scores.argmax(axis=1) == labels.argmax(axis=1)
    return Tried(ridge, float(((scores - labels) ** 2).mean()), float(right.mean()))
