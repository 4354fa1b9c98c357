"""Every device holds a single class: the strongest skew there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.scenario.sections import PartitionSettings

Indices = NDArray[np.int64]


def partition_by_one_class(
    labels: Indices,
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Give every device one class, and every class to as many devices as any other, or one less.

    `labels` is (N,). The devices of a class share its samples evenly at random. Raises
    `PartitionError` when there are fewer devices than classes, whose samples would be lost, or a
    class has fewer samples than devices.
    """
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if devices < len(classes):
        raise PartitionError(
            f"devices: {devices} of one class each cannot hold "
            f"{count_of(len(classes), 'class', 'classes')}; give at least "
            f"{count_of(len(classes), 'device')}, or fewer classes a stage"
        )
    places = random.permutation(devices)
    parts: list[Indices] = [np.empty(0, np.int64)] * devices
    for position, members in enumerate(classes):
        holders = places[position :: len(classes)]
        _check_class(len(members), len(holders))
        pieces = np.array_split(random.permutation(members), len(holders))
        for holder, piece in zip(holders, pieces, strict=True):
            parts[holder] = np.sort(piece)
    return parts


def _check_class(samples: int, holders: int) -> None:
    if samples < holders:
        raise PartitionError(
            f"devices: a class of {count_of(samples, 'sample')} falls to "
            f"{count_of(holders, 'device')}; give fewer devices, or more classes a stage"
        )
