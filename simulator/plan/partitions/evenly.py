"""Evenly at random, without looking at classes: test images that the devices judge a model by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.plan.partitions.checks import check_enough

Indices = NDArray[np.int64]


def partition_evenly(samples: int, devices: int, random: np.random.Generator) -> list[Indices]:
    """Deal `samples` at random; device sizes differ by at most one.

    Raises `PartitionError` when there are fewer samples than devices.
    """
    check_enough(samples, devices, devices)
    return [np.sort(part) for part in np.array_split(random.permutation(samples), devices)]
