"""Fleets whose images come in bursts, on devices that differ, drift or lie: drawn by a seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchmarks.papers.rollout_gates.devices import DISCORDANT, Counts

Floats = npt.NDArray[np.float64]
_MOST_THINGS = 2000
_LIE = 100
"""Images that a device claims which lies, of each class."""


@dataclass(frozen=True)
class Setting:
    """What devices hold, and what a candidate is to them; shares are of 1."""

    name: str
    devices: int = 1000
    classes: int = 10
    things: int = 20
    """What a device has images of, each of a random class."""
    copies: int = 1
    """Images of each thing."""
    alike: float = 0.0
    """Share of a thing's images for which the models answer as for the thing."""
    sizes: float = 0.0
    """Deviation of the logarithm of `things`, by device."""
    drop: float = 0.0
    """Net share of images by which the candidate is worse; below 0 it is better."""
    spread: float = 0.0
    """Standard deviation of that over devices."""
    skew: tuple[float, float, float] | None = None
    """Share of devices with the second number as their drop; the others have the third."""
    drift: tuple[float, float] | None = None
    """Drop in the first quarter of devices, and in the others."""
    lost: float = 0.0
    """Share of images of the first class that the candidate loses besides."""
    liars: float = 0.0
    """Share of devices that lie, the first of each group; at least 1 is their number."""
    by_chance: bool = False
    """Each device lies with that chance, so that there may be more or fewer of them."""
    lie: Literal["worse", "better"] = "worse"


@dataclass(frozen=True)
class Reports:
    """What devices report, in order: (rollouts, devices, 1 + classes), all classes first."""

    images: Counts
    worse: Counts
    better: Counts

    def of(self, rollout: int) -> Reports:
        """Return those of one rollout: (devices, 1 + classes)."""
        return Reports(self.images[rollout], self.worse[rollout], self.better[rollout])


def ends_of(devices: int) -> tuple[int, ...]:
    """Return how many devices groups of one, 5 %, a quarter and all hold."""
    return tuple(sorted({1, max(1, devices // 20), max(1, devices // 4), devices}))


def draw_reports(setting: Setting, rollouts: int, seed: int) -> Reports:
    """Draw the reports of so many rollouts."""
    numbers = np.random.default_rng([seed, *setting.name.encode()])
    drop = _drop(setting, rollouts, numbers)
    if setting.copies == 1:
        counts = _single(setting, drop, numbers)
    else:
        counts = _bursts(setting, drop, numbers)
    if setting.liars:
        _lie_in(setting, counts, numbers)
    whole = [np.concatenate([one.sum(axis=2, keepdims=True), one], axis=2) for one in counts]
    return Reports(*whole)


def _drop(setting: Setting, rollouts: int, numbers: np.random.Generator) -> Floats:
    shape = (rollouts, setting.devices)
    drop = setting.drop + setting.spread * numbers.standard_normal(shape)
    if setting.skew is not None:
        share, low, high = setting.skew
        drop = np.where(numbers.random(shape) < share, low, high)
    if setting.drift is not None:
        early = np.arange(setting.devices) < setting.devices // 4
        drop = drop + np.where(early, *setting.drift)
    return np.clip(drop, -DISCORDANT, DISCORDANT)


def _single(
    setting: Setting, drop: Floats, numbers: np.random.Generator
) -> tuple[Counts, Counts, Counts]:
    """Draw images that each show another thing."""
    sizes = np.full(drop.shape, setting.things)
    if setting.sizes:
        drawn = numbers.lognormal(np.log(setting.things), setting.sizes, drop.shape)
        sizes = np.clip(drawn, 1, _MOST_THINGS).astype(np.int64)
    share = np.full(setting.classes, 1 / setting.classes)
    images = numbers.multinomial(sizes, share)
    loses = np.broadcast_to((DISCORDANT + drop[:, :, None]) / 2, images.shape).copy()
    gains = np.broadcast_to((DISCORDANT - drop[:, :, None]) / 2, images.shape)
    loses[:, :, 0] += setting.lost
    worse = numbers.binomial(images, loses)
    better = numbers.binomial(images - worse, np.clip(gains / (1 - loses), 0, 1))
    return images, worse, better


def _bursts(
    setting: Setting, drop: Floats, numbers: np.random.Generator
) -> tuple[Counts, Counts, Counts]:
    """Draw several images of each thing, most of which both models answer as they do it."""
    rollouts, devices = drop.shape
    shape = (rollouts, devices, setting.classes)
    images, worse, better = (np.zeros(shape, np.int64) for _ in range(3))
    place = np.ogrid[:rollouts, :devices]
    for _ in range(setting.things):
        of_class = numbers.integers(0, setting.classes, drop.shape)
        loses = (DISCORDANT + drop) / 2 + setting.lost * (of_class == 0)
        gains = (DISCORDANT - drop) / 2
        chance = numbers.random(drop.shape)
        lost, gained = chance < loses, (chance >= loses) & (chance < loses + gains)
        following = numbers.binomial(setting.copies, setting.alike, drop.shape)
        others = setting.copies - following
        own_worse = numbers.binomial(others, loses)
        own_better = numbers.binomial(others - own_worse, np.clip(gains / (1 - loses), 0, 1))
        at = (*place, of_class)
        images[at] += setting.copies
        worse[at] += own_worse + following * lost
        better[at] += own_better + following * gained
    return images, worse, better


def _lie_in(
    setting: Setting, counts: tuple[Counts, Counts, Counts], numbers: np.random.Generator
) -> None:
    """Let the first devices of each group say of each class what is not so."""
    images, worse, better = counts
    starts = (0, *ends_of(setting.devices))
    for rollout in range(len(images)):
        if setting.liars >= 1:
            places = np.arange(int(setting.liars))
        else:
            lying = numbers.random(setting.devices) < setting.liars
            if not setting.by_chance:
                lying = numbers.permutation(setting.devices) < round(
                    setting.liars * setting.devices
                )
            groups = pairwise(starts)
            places = np.concatenate(
                [begin + np.arange(int(lying[begin:end].sum())) for begin, end in groups]
            )
        said = (_LIE, 0) if setting.lie == "worse" else (0, _LIE)
        images[rollout, places] = _LIE
        worse[rollout, places], better[rollout, places] = said
