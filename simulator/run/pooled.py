"""What a fleet is compared with: float64 ridge regression on all devices' images in one place.

STSA's equations (6) and (7) without devices, integers, messages or ONNX, on the same features: the
difference to the fleet's accuracy is the price of learning apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.features.interface import FrozenFeatures, Indices
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan

Floats = NDArray[np.float64]
RidgeRule = Callable[[Floats, Floats, Indices], float]
"""The ridge for G (M x M), P (M x C) and the samples of each class (C,)."""
_AT_ONCE = 1024
"""Samples whose features are in memory at a time."""


class PooledReference:
    """Sums over all images that were dealt so far, each as often as it was dealt."""

    def __init__(self, plan: FleetPlan, features: FrozenFeatures, ridge: RidgeRule) -> None:
        self._plan = plan
        self._features = features
        self._ridge = ridge
        self._counts = np.zeros(len(plan.class_names), np.int64)
        self._summed = 0
        """Stages in the sums."""
        self._gram: Floats | None = None
        self._correlation: Floats | None = None

    def accuracy(self, stage: int, train: Indices, test: Indices) -> float:
        """Return the accuracy (0 to 1) on the test samples of all classes seen by `stage`.

        `train` and `test` are the labels of the data set's two parts. Stages are asked in order.
        """
        for item in self._plan.stages[self._summed : stage]:
            self._add(item, train)
        self._summed = stage
        seen = np.array(self._plan.seen(stage))
        weights = self._solve(seen)
        asked = np.flatnonzero(np.isin(test, seen)).astype(np.int64)
        right = 0
        for chunk in _chunks(asked):
            scores = self._features.test(chunk).astype(np.float64) @ weights
            right += int((seen[scores.argmax(axis=1)] == test[chunk]).sum())
        return right / len(asked)

    def _add(self, stage: StagePlan, labels: Indices) -> None:
        dealt = [device.indices for device in stage.devices.values()]
        indices, times = np.unique(np.concatenate(dealt), return_counts=True)
        classes = len(self._plan.class_names)
        for chunk, often in zip(_chunks(indices), _chunks(times), strict=True):
            h = self._features.train(chunk).astype(np.float64)
            np.add.at(self._counts, labels[chunk], often)
            if self._gram is None or self._correlation is None:
                self._gram = np.zeros((h.shape[1], h.shape[1]))
                self._correlation = np.zeros((h.shape[1], classes))
            weighted = h * often[:, np.newaxis]
            self._gram += weighted.T @ h
            self._correlation += weighted.T @ np.eye(classes)[labels[chunk]]

    def _solve(self, seen: Indices) -> Floats:
        """Return W (M, C), a column for each class of `seen`; equation (7)."""
        assert self._gram is not None
        assert self._correlation is not None
        correlation = self._correlation[:, seen]
        ridge = self._ridge(self._gram, correlation, self._counts[seen])
        regularised = self._gram + ridge * np.eye(len(self._gram))
        solved: Floats = np.linalg.solve(regularised, correlation).astype(np.float64)
        return solved


def _chunks(values: Indices) -> list[Indices]:
    return [values[first : first + _AT_ONCE] for first in range(0, len(values), _AT_ONCE)]
