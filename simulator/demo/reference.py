"""What the fleet is compared with: float64 ridge regression on all images in one place.

STSA's equations (6) and (7) without devices, integers, messages or ONNX: for the same features
the fleet's heads should be as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Pooled:
    """Features (N, M) in float64 and labels (N,) of all devices together."""

    features: Features
    labels: Labels

    def of_classes(self, classes: Sequence[int]) -> Pooled:
        """Return the samples of these classes."""
        members = np.isin(self.labels, classes)
        return Pooled(self.features[members], self.labels[members])


def pooled_accuracy(
    train: Pooled, test: Pooled, stages: Sequence[Sequence[int]], ridge: float
) -> list[float]:
    """Return the accuracy (0 to 1) on all seen classes after each stage.

    `stages` lists each stage's labels. Every stage is solved from scratch on all of its data so
    far: W = (H^T H + ridge I)^-1 H^T Y, and the answer is the class with the largest h W.
    """
    accuracies = []
    for stage in range(1, len(stages) + 1):
        seen = [label for labels in stages[:stage] for label in labels]
        W = solve_ridge(train.of_classes(seen), seen, ridge)
        asked = test.of_classes(seen)
        answers = np.asarray(seen)[(asked.features @ W).argmax(axis=1)]
        accuracies.append(float((answers == asked.labels).mean()))
    return accuracies


def solve_ridge(train: Pooled, classes: Sequence[int], ridge: float) -> NDArray[np.float64]:
    """Return W (M, C) of equation (7) for one-hot targets of `classes`, in that order."""
    H = train.features
    Y = (train.labels[:, np.newaxis] == np.asarray(classes)).astype(np.float64)
    G = H.T @ H
    G[np.diag_indices_from(G)] += ridge
    W: NDArray[np.float64] = np.linalg.solve(G, H.T @ Y)
    return W
