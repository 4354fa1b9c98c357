"""Arrange helper: integer features that a frozen backbone could have put out, with labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetledger.schemas.values import ClassName

NAMES = tuple(ClassName(name) for name in ("cat", "dog", "eel", "fox"))
WIDTH = 12


@dataclass(frozen=True)
class Samples:
    """Features h (n x M, integers in float32) with one class name per row."""

    features: np.ndarray
    labels: list[str]

    def __getitem__(self, rows: np.ndarray) -> Samples:
        return Samples(self.features[rows], [self.labels[row] for row in rows])

    @property
    def one_hot(self) -> np.ndarray:
        """Y (n x C, float64) in the order of `NAMES`."""
        return np.array([[label == name for name in NAMES] for label in self.labels], np.float64)


def make_samples(seed: int, n: int = 160, spread: float = 25.0) -> Samples:
    """Return n samples of four classes, each around a mean of its own, in mixed order."""
    random = np.random.default_rng(seed)
    classes = random.permutation(np.arange(n) % len(NAMES))
    means = np.random.default_rng(1).normal(10, 40, (len(NAMES), WIDTH))
    features = means[classes] + random.normal(0, spread, (n, WIDTH))
    return Samples(
        np.rint(np.clip(features, -127, 127)).astype(np.float32), [NAMES[c] for c in classes]
    )


def shares(samples: Samples, devices: int, seed: int) -> list[np.ndarray]:
    """Return the rows of each device: skewed, every sample at one device."""
    random = np.random.default_rng(seed)
    classes = np.array([NAMES.index(label) for label in samples.labels])
    likely = random.dirichlet(np.full(devices, 0.5), len(NAMES))
    owner = np.array([random.choice(devices, p=likely[c]) for c in classes])
    return [rows for k in range(devices) if len(rows := np.flatnonzero(owner == k))]


def cosine_of(weights: np.ndarray) -> np.ndarray:
    """Return rows brought to length 1."""
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)
