"""The strongest crafted payloads: as many extreme samples as pass intake and all bounds.

Bad devices know every feature of the honest ones and lie together: samples made by gradient are
dealt to them, each among pictures of its own, so that residual, pull and move stay within bounds.
How many there may be is searched by halving, against the coordinator's own judgement; where they
know the inspection too, against that as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.papers.inspection.crafted import Aim, Liar
from benchmarks.papers.inspection.fleet import Fleet, Samples, concatenated
from fleetledger.methods.stsa.aggregate import StsaAggregate

HALVINGS = 5
STEPS = {10: 150, 100: 50}
"""Steps of Adam by the number of classes."""


Flagged = Callable[[Mapping[int, StsaAggregate]], set[int]]
"""Devices of some sums that somebody flags."""


def crafted(
    fleet: Fleet, bad: Sequence[int], flagged: Flagged | None = None
) -> Mapping[int, StsaAggregate]:
    """Return what the bad devices are counted with, and none of which is set aside or flagged."""
    honest = {d: one for d, one in enumerate(fleet.honest) if d not in bad}
    liar = _liar(fleet, [device for device in range(fleet.devices) if device not in bad])
    low, high = 0.0, 1.0
    found = {device: fleet.honest[device] for device in bad}
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = _told(fleet, bad, liar, middle)
        if tried is None or _seen(fleet, {**honest, **tried}, set(bad), flagged):
            high = middle
        else:
            low, found = middle, tried
    return found


def _seen(
    fleet: Fleet, sums: Mapping[int, StsaAggregate], bad: set[int], flagged: Flagged | None
) -> bool:
    return bool(fleet.set_aside(sums) & bad) or bool(flagged and flagged(sums) & bad)


def _liar(fleet: Fleet, honest: Sequence[int]) -> Liar:
    h, labels = concatenated([fleet.samples(device) for device in honest])
    settings = fleet.pictures.told.settings
    return Liar(h.astype(np.float64), labels, settings.ridge_value, settings.largest)


def _told(
    fleet: Fleet, bad: Sequence[int], liar: Liar, extreme: float
) -> dict[int, StsaAggregate] | None:
    """Return what is counted where that share of samples is extreme; None where intake refuses."""
    classes = len(fleet.pictures.names)
    numbers = {device: round(extreme * len(fleet.rows[device])) for device in bad}
    if not sum(numbers.values()):
        return None
    aim = Aim.of(sum(numbers.values()), classes, steps=STEPS.get(classes, 50))
    made, labels = liar.samples(aim, fleet.seed)
    order = np.random.default_rng(fleet.seed).permutation(len(labels))
    start, found = 0, {}
    for device, number in numbers.items():
        rows = order[start : start + number]
        start += number
        own = _without(fleet.samples(device), number)
        samples = concatenated([(made[rows].astype(np.float32), labels[rows]), own])
        told = fleet.told(samples)
        if told.aggregate is None:
            return None
        found[device] = told.aggregate
    return found


def _without(samples: Samples, number: int) -> Samples:
    return samples[0][number:], samples[1][number:]
