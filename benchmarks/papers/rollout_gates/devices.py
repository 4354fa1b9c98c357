"""Devices that compare a candidate with their model: what each would measure, drawn by a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.schemas.rollouts import (
    LATENCY_BINS,
    LATENCY_FIRST_SECONDS,
    LATENCY_RATIO,
    NATS,
    EntropyCounts,
    Mode,
    ModelComparison,
    ModelCost,
    Pairs,
)
from fleetledger.schemas.values import ClassName, DeviceId, Digest

DEVICES, IMAGES, UNLABELLED = 1000, 20, 20
CLASSES = [ClassName(f"class-{number}") for number in range(10)]
DISCORDANT = 0.08
"""Share of images that exactly one of the two models has right."""
_RIGHT = 0.9
"""Share that both have right of the others."""
ACTIVE, CANDIDATE = Digest.of(b"active"), Digest.of(b"candidate")
_LATENCY_SECONDS, _RESIDENT_BYTES = 0.05, 3e8

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A candidate, and how much devices differ in what it is to them."""

    name: str
    drop: float = 0.0
    """Share of images of known classes by which it is worse on average."""
    spread: float = 0.0
    """Standard deviation over devices of that share."""
    crashes: bool = False


@dataclass(frozen=True)
class Measured:
    """What all devices would measure; counts are (devices, classes) or (devices,)."""

    images: Counts
    worse: Counts
    better: Counts
    both: Counts
    latency: tuple[list[list[int]], list[list[int]]]
    resident_bytes: tuple[Counts, Counts]
    nats: tuple[Counts, Counts]
    agreed: Counts

    def comparison(self, number: int, group: int, mode: Mode) -> ModelComparison:
        """Return what a device says of it."""
        counted = [
            counts[number].tolist() for counts in (self.both, self.worse, self.better, self.images)
        ]
        classes = {
            name: Pairs(
                both=both,
                only_active=worse,
                only_candidate=better,
                neither=images - worse - better - both,
            )
            for name, both, worse, better, images in zip(CLASSES, *counted, strict=True)
            if images
        }
        costs = [
            ModelCost(
                latency=tuple(self.latency[which][number]),
                resident_bytes=int(self.resident_bytes[which][number]),
            )
            for which in (0, 1)
        ]
        entropies = [
            EntropyCounts(images=IMAGES, nats=int(self.nats[which][number])) for which in (0, 1)
        ]
        return ModelComparison(
            number=0,
            rollout=1,
            group=group,
            mode=mode,
            candidate=CANDIDATE,
            candidate_version=2,
            active=ACTIVE,
            active_version=1,
            classes=classes,
            entropy_active=entropies[0],
            entropy_candidate=entropies[1],
            agreed=int(self.agreed[number]),
            unlabelled=UNLABELLED,
            cost_active=costs[0],
            cost_candidate=costs[1],
        )


def name_of(number: int) -> DeviceId:
    """Return the name of a device."""
    return DeviceId(f"device-{number:04}")


def draw(case: Case, seed: int, devices: int = DEVICES) -> Measured:
    """Draw what devices would measure.

    The candidate is worse on a device by `drop` plus a normal number with the deviation `spread`,
    cut off at `DISCORDANT`. Its images are of classes at random. Time, memory, entropy and
    agreement are those of two models that are alike in them.
    """
    numbers = np.random.default_rng([seed, round(1000 * case.drop), round(1000 * case.spread)])
    drop = case.drop + case.spread * numbers.standard_normal((devices, 1))
    drop = np.clip(drop, -DISCORDANT, DISCORDANT)
    images = numbers.multinomial(IMAGES, np.full(len(CLASSES), 1 / len(CLASSES)), size=devices)
    worse_share = np.broadcast_to((DISCORDANT + drop) / 2, images.shape)
    better_share = (DISCORDANT - worse_share) / (1 - worse_share)
    worse = numbers.binomial(images, worse_share)
    better = numbers.binomial(images - worse, np.clip(better_share, 0, 1))
    both = numbers.binomial(images - worse - better, _RIGHT)
    usual = _LATENCY_SECONDS * numbers.lognormal(0, 0.3, (devices, 1))
    entropy = numbers.normal(0.5, 0.1, devices)
    return Measured(
        images=images,
        worse=worse,
        better=better,
        both=both,
        latency=(_latencies(usual, numbers), _latencies(usual, numbers)),
        resident_bytes=(_about(_RESIDENT_BYTES, numbers, devices),) * 2,
        nats=(
            _about(NATS * IMAGES * np.abs(entropy), numbers, devices),
            _about(NATS * IMAGES * np.abs(entropy), numbers, devices),
        ),
        agreed=numbers.binomial(UNLABELLED, 1 - DISCORDANT, devices),
    )


def _latencies(usual: npt.NDArray[np.float64], numbers: np.random.Generator) -> list[list[int]]:
    seconds = usual * numbers.lognormal(0, 0.15, (len(usual), IMAGES))
    bins = np.log(seconds / LATENCY_FIRST_SECONDS) / np.log(LATENCY_RATIO)
    rows = np.clip(bins.astype(int), 0, LATENCY_BINS - 1)
    return [np.bincount(row).tolist() for row in rows]


def _about(
    value: float | npt.NDArray[np.float64], numbers: np.random.Generator, devices: int
) -> Counts:
    return np.round(value * numbers.normal(1, 0.02, devices)).astype(np.int64)
