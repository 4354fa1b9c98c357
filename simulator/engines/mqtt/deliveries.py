"""Which images reach which agent's data folder, and when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import PurePosixPath

from schemas.values import DeviceId
from simulator.datasets.segmentation.tasks import TaskScenes
from simulator.engines.inprocess.presence import delivered
from simulator.engines.interface import Prepared
from simulator.engines.mqtt.delivery import hand_over, prepare
from simulator.engines.mqtt.folder import FleetFolder
from simulator.engines.mqtt.scene_delivery import prepare_scenes
from simulator.engines.paths import sample_path
from simulator.features.interface import Indices
from simulator.plan.fleet_plan import StagePlan


class Deliveries:
    """Lets images reach the agents whose homes are in `folder`; what is there already stays."""

    def __init__(self, prepared: Prepared, folder: FleetFolder) -> None:
        self._plan = prepared.plan
        self._train = prepared.split.train
        self._folder = folder

    def of_earlier_stages(self, stage: StagePlan, device: DeviceId) -> None:
        """Let a device have everything that came before a stage, while it is switched off."""
        for number, indices in delivered(self._plan, device, stage.number - 1):
            self._prepare(device, number, indices)
            hand_over(self._folder.private_images(device))

    def of_stage(self, stage: StagePlan, there: Iterable[DeviceId]) -> dict[DeviceId, int]:
        """Let a stage's images reach devices, all at once; return when each had them, in ns."""
        for device in there:
            self._prepare(device, stage.number, stage.devices[device].indices)
        arrived_ns = {}
        for device in there:
            hand_over(self._folder.private_images(device))
            arrived_ns[device] = time.time_ns()
        return arrived_ns

    def _prepare(self, device: DeviceId, stage: int, indices: Indices) -> None:
        train, folder = self._train, self._folder.private_images(device)
        paths = {i: PurePosixPath(sample_path(train, stage, i)) for i in indices.tolist()}
        if isinstance(train, TaskScenes):
            prepare_scenes(folder, train, paths)
        else:
            prepare(folder, train, paths)
