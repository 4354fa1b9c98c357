"""Arrange helpers: assignments, samples, and fleets of devices that share them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.head import RidgeHead
from fleetledger.methods.stsa.messages import StsaAssignment

WIDTH = 16
SMALL: dict[str, Any] = {"map_width": 40}
GAUSSIAN: dict[str, Any] = {**SMALL, "map": "gaussian", "form": "exact", "ridge": 100.0}
ESTIMATED: dict[str, Any] = {**SMALL, "form": "estimated", "groups": 4, "hold_back": False}
EVERY_KIND: list[dict[str, Any]] = [
    {**SMALL, "form": "exact"},
    {**SMALL, "form": "exact", "feature_bits": 8},
    {"map": "none", "form": "exact"},
    {**SMALL, "form": "compact"},
    {"map": "none", "form": "compact", "compact_bits": 15},
    GAUSSIAN,
    ESTIMATED,
    {**GAUSSIAN, "form": "estimated", "hold_back": False},
]


@dataclass(frozen=True)
class Samples:
    """Features h (n x M) with one class name per row."""

    features: np.ndarray
    labels: list[str]

    def __getitem__(self, rows: np.ndarray) -> Samples:
        return Samples(self.features[rows], [self.labels[row] for row in rows])


def assignment(settings: dict[str, Any] | None = None, width: int = WIDTH) -> StsaAssignment:
    return COORDINATOR.assign(SMALL if settings is None else settings, width)


def features_of(told: StsaAssignment, backbone: np.ndarray) -> np.ndarray:
    """Return what `frozen.onnx` would put out for backbone features (n x d)."""
    matrix = frozen_map(told)
    if not told.integer:
        return np.maximum(backbone @ matrix, 0)
    quantised = quantise_features(backbone)
    if matrix is None:
        return quantised.astype(np.float32)
    return project_integer(quantised, matrix, told.settings.feature_bits).astype(np.float32)


def make_samples(told: StsaAssignment, count: int, classes: int = 3, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    index = rng.integers(0, classes, count)
    centres = rng.normal(size=(classes, told.feature_width))
    backbone = centres[index] + rng.normal(size=(count, told.feature_width))
    labels = [f"class {i}" for i in index]
    return Samples(features_of(told, backbone.astype(np.float32)), labels)


def payload_of(told: StsaAssignment, samples: Samples) -> bytes:
    return DEVICE.finish(told, samples.features, samples.labels).payload


def payloads(told: StsaAssignment, samples: Samples, parts: Sequence[np.ndarray]) -> list[bytes]:
    return [payload_of(told, samples[rows]) for rows in parts]


def exactly(head: RidgeHead) -> tuple[object, ...]:
    """What scores follow from, to the bit."""
    return head.class_names, head.logit_scale, head.weights.tobytes()


def summed(told: StsaAssignment, parts: Sequence[bytes], stage: int = 1) -> StsaAggregate:
    total = StsaAggregate.empty(told)
    for payload in parts:
        total = total + StsaAggregate.of(told, COORDINATOR.check(told, payload), stage)
    return total
