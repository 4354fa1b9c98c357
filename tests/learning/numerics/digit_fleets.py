"""Fleets of digits whose devices see classes in different shares, some of them dishonest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.leave_out import UnitMoments

WIDTH, CLASSES, RIDGE = 200, 10, 0.3 * 127**2
Samples = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Features (n, M) and one-hot labels (n, C)."""
Attack = Callable[[np.random.Generator, Samples], Samples]


@cache
def digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return integer random features (1797, M) and labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    images, labels = images[order] / 16, labels[order]
    hidden = np.maximum((images - images.mean(axis=0)) @ rng.normal(size=(64, WIDTH)), 0)
    return np.rint(127 * hidden / hidden.max(axis=1, keepdims=True)), labels


@dataclass(frozen=True)
class DigitFleet:
    """What each device has; who is dishonest."""

    samples: Sequence[Samples]
    bad: tuple[int, ...]

    @property
    def units(self) -> list[UnitMoments]:
        return [
            UnitMoments.of(h.T @ h, h.T @ y, y.sum(axis=0).astype(np.int64))
            for h, y in self.samples
        ]


def rotated(rng: np.random.Generator, samples: Samples) -> Samples:
    return samples[0], np.roll(samples[1], 1, axis=1)


def at_random(rng: np.random.Generator, samples: Samples) -> Samples:
    return samples[0], np.eye(CLASSES)[rng.integers(0, CLASSES, len(samples[0]))]


def broken_camera(rng: np.random.Generator, samples: Samples) -> Samples:
    return np.rint(127 * rng.random(samples[0].shape)), samples[1]


def fleet(
    seed: int, dirichlet: float, bad: int = 0, attack: Attack = rotated, devices: int = 40
) -> DigitFleet:
    """Return a fleet whose dishonest devices are among the larger half."""
    features, labels = digits()
    rng = np.random.default_rng(seed)
    parts: list[list[int]] = [[] for _ in range(devices)]
    for label in range(CLASSES):
        of_class = rng.permutation(np.flatnonzero(labels[:1437] == label))
        shares = np.cumsum(rng.dirichlet([dirichlet] * devices))[:-1]
        for part, some in zip(
            parts, np.split(of_class, (shares * len(of_class)).astype(int)), strict=True
        ):
            part.extend(some)
    larger = np.argsort([-len(part) for part in parts])[: max(devices // 2, bad)]
    chosen = tuple(sorted(rng.choice(larger, bad, replace=False).tolist()))
    samples: list[Samples] = [(features[part], np.eye(CLASSES)[labels[part]]) for part in parts]
    for place in chosen:
        samples[place] = attack(rng, samples[place])
    return DigitFleet(samples, chosen)
