"""What bad devices do, by name: each takes a device's own pictures and returns what it tells of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.papers.inspection.fleet import Fleet, Samples, Told

TARGET = 0
"""Class that a trigger is to be taken for."""
REPEATS = 8
"""Times that a device tells of each picture."""
Bend = Callable[[Fleet, int, np.random.Generator], Samples]


@dataclass(frozen=True)
class Attack:
    """What a bad device makes of its pictures, and of its class sums."""

    bend: Bend
    scaled: int = 1

    def told(self, fleet: Fleet, device: int) -> Told:
        """Return what intake makes of a bad device's message."""
        random = np.random.default_rng([fleet.seed, device])
        return fleet.told(self.bend(fleet, device, random), scaled=self.scaled)


def _rotated(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    h, labels = fleet.samples(device)
    return h, (labels + 1) % len(fleet.pictures.names)


def _random(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    h, labels = fleet.samples(device)
    return h, random.integers(0, len(fleet.pictures.names), len(labels))


def _honest(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    return fleet.samples(device)


def _repeated(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    h, labels = _rotated(fleet, device, random)
    return np.repeat(h, REPEATS, axis=0), np.repeat(labels, REPEATS)


def _backdoor(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    h, labels = (array.copy() for array in fleet.samples(device))
    marked = random.permutation(len(labels))[: (len(labels) + 1) // 2]
    h[marked] = fleet.pictures.triggered[fleet.rows[device][marked]]
    labels[marked] = TARGET
    return h, labels


def _noise(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    _, labels = fleet.samples(device)
    broken = fleet.pictures.broken
    return broken[random.integers(0, len(broken), len(labels))], labels


def _stuck(fleet: Fleet, device: int, random: np.random.Generator) -> Samples:
    h, labels = fleet.samples(device)
    return np.repeat(h[:1], len(labels), axis=0), labels


ATTACKS: dict[str, Attack] = {
    "rotated labels": Attack(_rotated),
    "random labels": Attack(_random),
    "scaled sums": Attack(_honest, scaled=-3),
    "rotated, eightfold": Attack(_repeated),
    "backdoor": Attack(_backdoor),
    "camera: noise": Attack(_noise),
    "camera: stuck": Attack(_stuck),
}
"""`scaled sums` are the class sums of honest pictures times -3."""
