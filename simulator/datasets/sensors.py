"""Windows of a made-up motion sensor: three axes of acceleration and three of rotation.

An activity has a rhythm and a strength of its own on each channel; a person moves faster or slower,
harder or softer, and wears the sensor a little turned. A window begins anywhere in the movement, is
measured with noise, and belongs to one person and to the place where the sensor is worn, which is
its domain. Nothing is downloaded, and what is measured on it says nothing of any real sensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.arrays import LabelledArrays
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import Domains
from fleetledger.simulator.errors import DatasetError

CHANNELS = 6
RATE = 32.0
"""Moments measured in a second."""
PLACES = {"wrist": 1.4, "hip": 1.0, "pocket": 0.8}
"""Where the sensor is worn, and how strong movements are there."""
_GRAVITY = 9.81
_NOISE = 0.9


@dataclass(frozen=True)
class _Activity:
    """How a person moves: cycles a second, strength, and the share of the double rhythm."""

    rate: float
    strength: float
    double: float
    turning: float
    """Strength of rotation."""


ACTIVITIES = {
    "climbing": _Activity(1.3, 3.2, 0.7, 0.5),
    "cycling": _Activity(1.1, 1.2, 0.1, 1.6),
    "jumping": _Activity(2.2, 8.0, 0.3, 0.4),
    "resting": _Activity(0.3, 0.1, 0.0, 0.05),
    "running": _Activity(2.7, 6.0, 0.5, 1.2),
    "walking": _Activity(1.8, 2.5, 0.4, 0.9),
}


def make_sensors(
    _root: object = None,
    seed: int = 0,
    *,
    train: int = 100,
    test: int = 40,
    people: int = 20,
    moments: int = 64,
) -> Split[LabelledArrays]:
    """Return windows float32 (6, `moments`), `train` and `test` of every activity.

    `people` own them in turn. Raises `DatasetError` for numbers below 1.
    """
    numbers = {"train": train, "test": test, "people": people, "moments": moments}
    for name, number in numbers.items():
        if type(number) is not int or not 1 <= number <= 100_000:
            raise DatasetError(f"data.options.{name}: {number!r}; give 1 to 100000")
    random = np.random.default_rng([seed, 2])
    crowd = [_Person.drawn(random) for _ in range(people)]
    return Split(
        _part(crowd, train, moments, np.random.default_rng([seed, 0])),
        _part(crowd, test, moments, np.random.default_rng([seed, 1])),
    )


@dataclass(frozen=True)
class _Person:
    """What makes one's movements one's own."""

    speed: float
    force: float
    worn: NDArray[np.float64]
    """Rotation of the sensor, (3, 3)."""

    @classmethod
    def drawn(cls, random: np.random.Generator) -> _Person:
        turned, _ = np.linalg.qr(np.eye(3) + random.normal(0, 0.3, (3, 3)))
        return cls(random.uniform(0.65, 1.5), random.uniform(0.5, 1.8), turned)


def _part(
    people: list[_Person], each: int, moments: int, random: np.random.Generator
) -> LabelledArrays:
    labels = np.repeat(np.arange(len(ACTIVITIES)), each)
    owners = np.arange(len(labels)) % len(people)
    places = random.integers(len(PLACES), size=len(labels))
    strengths, activities = list(PLACES.values()), list(ACTIVITIES.values())
    windows = [
        _window(activities[label], people[owner], strengths[place], moments, random)
        for label, owner, place in zip(labels, owners, places, strict=True)
    ]
    return LabelledArrays(
        labels.astype(np.int64),
        tuple(map(ClassName, ACTIVITIES)),
        np.stack(windows).astype(np.float32),
        owners=owners.astype(np.int64),
        domains=Domains(tuple(PLACES), places.astype(np.int64)),
    )


def _window(
    activity: _Activity,
    person: _Person,
    place: float,
    moments: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Return one window (6, moments)."""
    time = np.arange(moments) / RATE
    phase = 2 * np.pi * (activity.rate * person.speed * time + random.uniform())
    strength = activity.strength * person.force * place
    up = np.sin(phase) + activity.double * np.sin(2 * phase)
    forward, aside = 0.6 * np.sin(phase + 0.9), 0.3 * np.sin(phase / 2)
    moved = person.worn @ (strength * np.stack([aside, forward, up]))
    moved += (person.worn @ np.array([0.0, 0.0, _GRAVITY]))[:, np.newaxis]
    turning = activity.turning * place * np.stack([np.cos(phase), aside, np.cos(phase / 2)])
    noise = random.normal(0, _NOISE, (CHANNELS, moments))
    return np.asarray(np.concatenate([moved, person.worn @ turning]) + noise)
