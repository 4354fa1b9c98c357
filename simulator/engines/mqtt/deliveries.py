"""Which images reach which agent's folders, and when."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import numpy as np

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.mqtt.delivery import deliver, hand_over, prepare
from fleetledger.simulator.engines.mqtt.folder import FleetFolder
from fleetledger.simulator.engines.paths import sample_path
from fleetledger.simulator.engines.presence import delivered
from fleetledger.simulator.features.interface import Indices
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.plan.partitions import partition_evenly
from fleetledger.simulator.plan.streams import random_stream


class Deliveries:
    """Lets images reach the agents whose homes are in `folder`; what is there already stays."""

    def __init__(self, prepared: Prepared, folder: FleetFolder) -> None:
        self._plan = prepared.plan
        self._train = prepared.split.train
        self._folder = folder
        self._test = prepared.split.test
        self._watched = prepared.scenario.stages.by_reports
        on_devices = prepared.scenario.evaluation.on_devices
        self._asked = shares_of_test(prepared.plan, self._test) if on_devices else {}

    def of_earlier_stages(self, stage: StagePlan, device: DeviceId) -> None:
        """Let a device have everything that came before a stage, while it is switched off."""
        for number, indices in delivered(self._plan, device, stage.number - 1):
            self._prepare(device, number, indices)
            hand_over(self._folder.private_images(device), settled=True)

    def of_stage(self, stage: StagePlan, there: Iterable[DeviceId]) -> dict[DeviceId, int]:
        """Let a stage's images reach devices, all at once; return when each had them, in ns."""
        for device in there:
            self._prepare(device, stage.number, stage.devices[device].indices)
        arrived_ns = {}
        for device in there:
            hand_over(self._folder.private_images(device), settled=not self._watched)
            arrived_ns[device] = time.time_ns()
        return arrived_ns

    def of_test(self, device: DeviceId) -> None:
        """Let a device have the test images that it is asked about."""
        asked = self._asked.get(device, ())
        paths = {i: PurePosixPath(sample_path(self._test, 0, i)) for i in map(int, asked)}
        if paths:
            deliver(self._folder.test_images(device), self._test, paths, settled=True)

    def questions(self, stage: StagePlan, device: DeviceId) -> int:
        """Return how many test images of classes seen by a stage a device is asked about."""
        labels = self._test.labels[self._asked[device]]
        return int(np.isin(labels, self._plan.seen(stage.number)).sum())

    def _prepare(self, device: DeviceId, stage: int, indices: Indices) -> None:
        train, folder = self._train, self._folder.private_images(device)
        paths = {i: PurePosixPath(sample_path(train, stage, i)) for i in indices.tolist()}
        prepare(folder, train, paths)


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
