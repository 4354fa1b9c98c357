"""Which device is asked about which test images, where devices measure the model that they run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.partitions import partition_evenly
from fleetledger.simulator.plan.streams import random_stream

Indices = NDArray[np.int64]


def shares_of_test(plan: FleetPlan, test: SampleSet) -> Mapping[DeviceId, Indices]:
    """Deal the test images of all planned classes evenly to all devices of a plan.

    Each image is on one device, so their right answers add up to those on the whole test set.
    Raises `PartitionError` where there are fewer images than devices.
    """
    planned = np.isin(test.labels, plan.seen(len(plan.stages)))
    wanted = np.flatnonzero(planned).astype(np.int64)
    random = random_stream(plan.seed, "test images")
    shares = partition_evenly(len(wanted), len(plan.devices), random)
    return {name: wanted[share] for name, share in zip(plan.devices, shares, strict=True)}
