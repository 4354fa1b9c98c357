"""What devices compare models on: test pictures in a folder of each, seen by its own camera."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.rollouts.brightness import dimmed
from fleetledger.simulator.scenario.rollout import RolloutSettings

FOLDER = "held-out"
"""Of a device, in its home."""
_FAST = 1
"""zlib's fastest level: the files are read once, on this machine."""


@dataclass(frozen=True)
class RolloutFleet:
    """Who takes part in a rollout, and how; all of it drawn from the seed of the plan."""

    settings: RolloutSettings
    plan: FleetPlan
    dim: frozenset[DeviceId]
    """Devices with the other camera."""
    failing: frozenset[DeviceId]
    silent: frozenset[DeviceId]

    @classmethod
    def drawn(cls, settings: RolloutSettings, plan: FleetPlan) -> RolloutFleet:
        """Draw who is what; at least one device where a share is not zero."""
        cameras = settings.cameras
        return cls(
            settings,
            plan,
            _drawn(plan, "rollout cameras", cameras.share if cameras is not None else 0.0),
            _drawn(plan, "rollout failures", settings.failing),
            _drawn(plan, "rollout silence", settings.silent),
        )

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """Those that are there in the last stage."""
        return tuple(self.plan.stages[-1].devices)

    def tags(self, device: DeviceId) -> dict[TagName, TagValue]:
        """Return what the owner of a device says of it."""
        cameras = self.settings.cameras
        if cameras is None or device not in self.dim:
            return {}
        selector = cameras.selector
        assert selector.value is not None
        return {selector.name: selector.value}

    def pictures(self, device: DeviceId, test: SampleSet) -> NDArray[np.int64]:
        """Return the test pictures that a device holds, ascending: of classes that it learned."""
        seen = np.isin(test.labels, self.plan.seen(len(self.plan.stages)))
        known = np.flatnonzero(seen).astype(np.int64)
        number = self.devices.index(device)
        random = random_stream(self.plan.seed, "held-out pictures", number)
        wanted = min(self.settings.held_out, len(known))
        return np.sort(random.choice(known, wanted, replace=False))

    def seen_by(self, device: DeviceId, picture: Image.Image) -> Image.Image:
        """Return a picture as the camera of a device sees it."""
        cameras = self.settings.cameras
        if cameras is None or device not in self.dim:
            return picture
        return dimmed(picture, cameras.brightness)


class HeldOut:
    """Writes each picture once, and gives devices links to it."""

    def __init__(self, fleet: RolloutFleet, test: SampleSet, shared: Path) -> None:
        """`shared` is a folder on the file system of the devices' homes."""
        self._fleet = fleet
        self._test = test
        self._shared = shared

    def deliver(self, device: DeviceId, folder: Path) -> None:
        """Give a device its pictures, in a folder of its own; what it has stays."""
        folder.mkdir(parents=True, exist_ok=True)
        for index in self._fleet.pictures(device, self._test).tolist():
            name = self._test.class_names[self._test.labels[index]]
            path = folder / name / f"{index:06}{PICTURES.suffix}"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                os.link(self._written(device, index), path)

    def _written(self, device: DeviceId, index: int) -> Path:
        camera = "dim" if device in self._fleet.dim else "usual"
        path = self._shared / f"{camera}-{index:06}{PICTURES.suffix}"
        if not path.exists():
            self._shared.mkdir(parents=True, exist_ok=True)
            picture = self._test.picture(index)
            assert isinstance(picture, Image.Image), "rollouts are refused with other samples"
            new = path.with_suffix(f".new{PICTURES.suffix}")
            self._fleet.seen_by(device, picture).save(new, compress_level=_FAST)
            new.replace(path)  # a program that ends meanwhile leaves no half of a picture
        return path


@dataclass(frozen=True)
class RolloutGear:
    """What tells devices of a rollout apart, and what they compare models on."""

    fleet: RolloutFleet
    held_out: HeldOut

    def settings(self, usual: AgentSettings, device: DeviceId) -> AgentSettings:
        """Return the settings of a device: its owner's tags, and a folder of held-out images."""
        data = usual.data.model_copy(update={"evaluation_folder": Path(FOLDER)})
        return usual.model_copy(update={"data": data, "tags": self.fleet.tags(device)})


def _drawn(plan: FleetPlan, purpose: str, share: float) -> frozenset[DeviceId]:
    devices: Mapping[int, DeviceId] = dict(enumerate(plan.stages[-1].devices))
    number = max(1, round(share * len(devices))) if share else 0
    chosen = random_stream(plan.seed, purpose).choice(len(devices), number, replace=False)
    return frozenset(devices[int(index)] for index in chosen)
