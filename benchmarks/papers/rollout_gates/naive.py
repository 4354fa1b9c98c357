"""The rule of thumb: pause once accuracy fell by more than a point, seen after every report."""

from __future__ import annotations

import random

from benchmarks.papers.rollout_gates.devices import IMAGES, Measured, name_of
from benchmarks.papers.rollout_gates.rollout import Ending
from fleetledger.schemas.rollouts import place_of

_FEWEST_IMAGES = 100
"""Of fewer nobody would say what accuracy is."""
_POINT = 0.01


def naive(sizes: tuple[int, ...], measured: Measured, seed: int) -> Ending:
    """Return what becomes of the same rollout by that rule; `sizes` are those of its groups."""
    order = random.Random(seed)
    count = len(measured.images)
    places = sorted(range(count), key=lambda number: place_of("rollout-1", name_of(number)))
    worse, better = measured.worse.sum(axis=1).tolist(), measured.better.sum(axis=1).tolist()
    fallen = images = former = 0
    for group, size in enumerate(sizes, start=1):
        members = places[former:size]
        order.shuffle(members)
        former = size
        for number in members:
            fallen += worse[number] - better[number]
            images += IMAGES
            if images >= _FEWEST_IMAGES and fallen > _POINT * images:
                return Ending("paused", group, size, ("accuracy",))
    return Ending("finished", len(sizes), count, ())
