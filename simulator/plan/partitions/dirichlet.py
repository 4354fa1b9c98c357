"""Skewed by class: the shares of every class are drawn from a Dirichlet distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions.checks import check_enough
from fleetledger.simulator.scenario.sections import PartitionSettings

Indices = NDArray[np.int64]
MAX_DRAWS = 10_000
"""Attempts after which a skewed partition is given up: the skew leaves some device too little."""


def partition_by_dirichlet(
    labels: Indices, devices: int, settings: PartitionSettings, random: np.random.Generator
) -> list[Indices]:
    """Deal samples so that each class is spread by shares drawn from Dirichlet(beta, ..., beta).

    `labels` is (N,). For each class, in ascending order, shares are drawn and the shuffled class
    is cut accordingly; all is drawn again until every device has `least_images` samples. With
    `full_devices_get_none` devices that hold N/K samples or more get none of the class and the
    others share it: the routine of the STSA and LANDER programs. Without it, this is the
    Dirichlet(alpha p) of DCID with p uniform, where alpha is `beta` times the number of devices.

    Raises `PartitionError` when there are too few samples, or no draw gives every device enough.
    """
    check_enough(len(labels), max(1, settings.least_images) * devices, devices)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(MAX_DRAWS):
        shuffled, cuts, held = _draw(classes, devices, settings, random)
        if held.min() >= settings.least_images:
            return _cut(shuffled, cuts, devices)
    raise PartitionError(
        f"beta: {MAX_DRAWS} draws with {settings.beta} all left one of "
        f"{count_of(devices, 'device')} with less than {settings.least_images} of "
        f"{count_of(len(labels), 'sample')}; give a larger beta, fewer devices, or least_images = 0"
    )


def _draw(
    classes: list[Indices],
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> tuple[list[Indices], list[Indices], Indices]:
    """Return the shuffled samples of every class, where to cut them, and what each device holds."""
    fair_share = sum(map(len, classes)) / devices
    held = np.zeros(devices, np.int64)
    shuffled, cuts = [], []
    for members in classes:
        shuffled.append(random.permutation(members))
        full = (held >= fair_share) & settings.full_devices_get_none
        cuts.append(_cuts(_shares(full, settings.beta, random), len(members)))
        held += np.diff(cuts[-1], prepend=0, append=len(members))
    return shuffled, cuts, held


def _shares(
    full: NDArray[np.bool_], beta: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return shares in proportion, zero for full devices.

    Before the last sample is dealt some device is below the fair share, but with a tiny `beta`
    its share may have come out as zero; then the open devices share evenly.
    """
    shares: NDArray[np.float64] = random.dirichlet(np.full(len(full), beta))
    shares[full] = 0.0
    if not shares.sum() > 0:
        shares = (~full).astype(np.float64)
    return shares


def _cuts(shares: NDArray[np.float64], samples: int) -> Indices:
    """Return where to cut `samples` items into consecutive pieces of the given shares.

    Dividing by the last sum makes it exactly one: else rounding could leave a sample to a full
    device at the end.
    """
    sums = np.cumsum(shares)
    cuts: Indices = (sums[:-1] / sums[-1] * samples).astype(np.int64)
    return cuts


def _cut(shuffled: list[Indices], cuts: list[Indices], devices: int) -> list[Indices]:
    """Return the samples of every device, ascending."""
    pieces = [np.split(members, at) for members, at in zip(shuffled, cuts, strict=True)]
    return [np.sort(np.concatenate([piece[k] for piece in pieces])) for k in range(devices)]
