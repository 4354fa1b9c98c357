"""Every class spread evenly over the devices, at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.plan.partitions.checks import check_enough
from fleetledger.simulator.scenario.sections import PartitionSettings

Indices = NDArray[np.int64]


def partition_iid(
    labels: Indices,
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Deal every class evenly: the equal random split of DCID, and LANDER's for IID data.

    The samples, shuffled and then sorted by class, are dealt like cards to the devices in a random
    order. So the devices' numbers of samples of a class differ by at most one, and their totals
    too. Raises `PartitionError` when there are fewer samples than devices.
    """
    check_enough(len(labels), devices, devices)
    shuffled = random.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    turns = random.permutation(devices)
    parts: list[Indices] = [np.empty(0, np.int64)] * devices
    for turn, device in enumerate(turns):
        parts[device] = np.sort(by_class[turn::devices])
    return parts
