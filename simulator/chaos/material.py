"""What every run of a scenario begins with: made once, copied for each run."""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.core.rules import BoundRules, ModelRules, StageRules
from coordinator.settings import CoordinatorSettings, MethodSettings, write_new
from device_agent.home import AgentHome
from device_agent.settings import AgentSettings, DataSettings, DetectionSettings, ModelSettings
from methods.registry import trains
from schemas.values import DeviceId, FleetId
from simulator.backbones.loading import load_backbone
from simulator.datasets.images import Split
from simulator.datasets.loading import load_split
from simulator.datasets.samples import Samples
from simulator.engines.mqtt.homes import admit, import_backbone
from simulator.engines.paths import image_path, suffix_of
from simulator.errors import ScenarioError
from simulator.plan.fleet_plan import FleetPlan, StagePlan
from simulator.plan.making import make_plan
from simulator.scenario.model import TEXTS, Scenario

FLEET = FleetId("chaos")
_SCAN_SECONDS = 60.0
"""A new assignment is looked at anyway; fewer scans let long absences pass quickly."""
_AT_REST = 1_577_836_800
"""When pictures were last changed: long ago, so that nobody waits for them to be written."""


@dataclass(frozen=True)
class Material:
    """Plan and pictures of one scenario and seed, and homes from which runs are copied."""

    scenario: Scenario
    split: Split[Samples]
    plan: FleetPlan
    folder: Path
    _pictures: dict[int, bytes] = field(default_factory=dict)

    @property
    def any_division(self) -> bool:
        """Whether the model is the same however a device's images are divided into parts.

        That is promised of exact Gram matrices alone: other parts round, or group images.
        """
        method = self.scenario.method
        exact = method.settings.get("form") == "exact" and not method.settings.get("forms")
        return method.name == "fed3r" or (method.name == "stsa" and exact)

    def copy_coordinator(self, home: Path) -> None:
        """Make the home of a coordinator that has admitted the devices and has the backbone."""
        shutil.copytree(self.folder / "coordinator", home)

    def make_agent(self, device: DeviceId, home: Path) -> AgentHome:
        """Make the home of an agent, without data."""
        settings = AgentSettings(
            device=device,
            fleet=FLEET,
            data=DataSettings(
                folder=Path("data"),
                scan_seconds=_SCAN_SECONDS,
                samples="text" if self.scenario.data.set in TEXTS else "pictures",
            ),
            # Its storms start agents more often than any probation bears.
            model=ModelSettings(trial=False, probation_seconds=0),
            detection=DetectionSettings(mode="off"),
        )
        (home / "data").mkdir(parents=True)
        return AgentHome(home, settings)

    def deliver(self, stage: StagePlan, home: AgentHome) -> None:
        """Put the samples of a stage into an agent's data folder, where the engines put them."""
        got = stage.devices.get(home.settings.device)
        for index in got.indices.tolist() if got is not None else ():
            name = self.split.train.class_names[self.split.train.labels[index]]
            suffix = suffix_of(self.split.train)
            path = home.data_folder / image_path(name, stage.number, index, suffix)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self._content(index))
            os.utime(path, (_AT_REST, _AT_REST))

    def _content(self, index: int) -> bytes:
        if index not in self._pictures:
            sample = self.split.train.picture(index)
            if isinstance(sample, bytes):
                return sample
            file = io.BytesIO()
            sample.save(file, "PNG")
            self._pictures[index] = file.getvalue()
        return self._pictures[index]


def prepare(scenario: Scenario, folder: Path) -> Material:
    """Load the data, make the plan of the scenario's first seed, and the coordinator's home.

    Raises `ScenarioError` for a scenario whose end may depend on when things happen.
    """
    if scenario.stages.opened_by != "schedule":
        raise ScenarioError(
            f"stages.opened_by: {scenario.stages.opened_by!r} lets the time of reports decide the "
            "order of classes, so a disturbed run has no other to equal; use 'schedule'"
        )
    if trains(scenario.method.name):
        raise ScenarioError(
            f"method.name: {scenario.method.name!r} trains in rounds, which close without whoever "
            "is late, so a disturbed run has no other to equal; use a method of statistics"
        )
    seed = scenario.seeds[0]
    split = load_split(scenario.data, seed)
    plan = make_plan(scenario, split, seed)
    home = folder / "coordinator"
    write_new(
        home,
        CoordinatorSettings(
            fleet=FLEET,
            method=MethodSettings(name=scenario.method.name, settings=scenario.method.settings),
            # However long a device is away, the stage waits for it: a stage that closes without a
            # device is no other model in the end, but takes its parts under another stage.
            stages=StageRules(quorum=1.0, quiet_seconds=3.0, deadline_seconds=1e6),
            models=ModelRules(solve_every_seconds=5.0),
            # Installations that are made anew give other parts of the same images.
            bounds=BoundRules(max_share=1.0),
        ),
    )
    backbone = load_backbone(scenario.backbone, split)
    import_backbone(home, backbone.name, backbone.data, backbone.preprocessing)
    admit(home, plan.devices)
    return Material(scenario, split, plan, folder)
