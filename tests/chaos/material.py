"""What every run of a scenario begins with: made once, copied for each run."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fleetledger.coordinator.core.rules import (
    BoundRules,
    ModelRules,
    PrivacyRules,
    RolloutRules,
    StageRules,
)
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.program.command_client import send_all
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.settings import (
    AgentDataSettings,
    AgentDetectionSettings,
    AgentSettings,
    ModelSettings,
    PolicySettings,
)
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.simulator.backbones.loading import Backbone, load_backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.mqtt.homes import carry_out
from fleetledger.simulator.engines.paths import sample_path
from fleetledger.simulator.engines.rounds import import_backbone, method_settings, round_rules
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.rollouts.held_out import HeldOut, RolloutFleet
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import trainer_of, trains_on_features
from tests.chaos.candidates import CandidateShelf

FLEET = FleetId("chaos")
_SCAN_SECONDS = 60.0
"""A new assignment is looked at anyway; fewer scans let long absences pass quickly."""
_TRAINED = ("rounds", "fedhaf", "lga")
_TOKEN_HOURS = 50 * 365 * 24.0
"""No leap of a calendar is as long."""
_AT_REST = 1_577_836_800
"""When pictures were last changed: long ago, so that nobody waits for them to be written."""


@dataclass(frozen=True)
class ChaosMaterial:
    """Plan and pictures of one scenario and seed, and homes from which runs are copied."""

    scenario: Scenario
    split: Split[SampleSet]
    plan: FleetPlan
    folder: Path
    coordinator_key: VerifyKey | None = None
    """What devices believe, which have tokens to enrol with then; None without keys."""
    _pictures: dict[int, bytes] = field(default_factory=dict)

    @cached_property
    def rollout(self) -> RolloutFleet | None:
        """Who takes part in the rollout at the end, and how; None without one."""
        settings = self.scenario.rollout
        return RolloutFleet.drawn(settings, self.plan) if settings is not None else None

    @cached_property
    def candidates(self) -> CandidateShelf:
        """What goes out in it."""
        assert self.scenario.rollout is not None, "the scenario ends with a rollout"
        return CandidateShelf(self.scenario.rollout, self.split.test, self.plan.seed)

    @property
    def any_division(self) -> bool:
        """Whether the model is the same however a device's images are divided into parts.

        That is promised of exact Gram matrices alone: other parts round, or group images.
        """
        method = self.scenario.method
        exact = method.settings.get("form") == "exact" and not method.settings.get("forms")
        return method.name == "fed3r" or (method.name == "stsa" and exact)

    @property
    def has_proxy(self) -> bool:
        """Whether the method has one."""
        return descriptor(self.scenario.method.name).proxy

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of all that may fail."""
        return ("coordinator", *self.plan.devices, *((PROXY,) if self.has_proxy else ()))

    def copy_coordinator(self, home: Path) -> None:
        """Make the home of a coordinator that has admitted the devices and has the backbone."""
        shutil.copytree(self.folder / "coordinator", home)

    def make_agent(self, device: DeviceId, home: Path) -> AgentHome:
        """Make the home of an agent, without data."""
        settings = AgentSettings(
            device=device,
            fleet=FLEET,
            coordinator_key=self.coordinator_key,
            data=AgentDataSettings(
                # On another disk: the owner's pictures are not what may be lost.
                folder=home.parent.parent / "data" / device,
                scan_seconds=_SCAN_SECONDS,
                longest_pause_seconds=0,
                samples=self.scenario.data.known.kind.name,
                evaluation_folder=None if self.rollout is None else self._held_out(home),
            ),
            # Its storms start agents more often than any probation bears.
            model=ModelSettings(trial=False, probation_seconds=0),
            detection=AgentDetectionSettings(mode="off"),
            policy=PolicySettings(publish_gradients=self.has_proxy),
        )
        if self.rollout is not None:
            settings = settings.model_copy(update={"tags": self.rollout.tags(device)})
        made = AgentHome(home, settings)
        if self.rollout is not None:
            shared = home.parent.parent / "data" / "held-out"
            HeldOut(self.rollout, self.split.test, shared).deliver(device, self._held_out(home))
        home.mkdir(parents=True)
        made.data_folder.mkdir(parents=True)
        if self.coordinator_key is not None:
            shutil.copytree(self.folder / "agents" / device / "keys", home / "keys")
        return made

    @staticmethod
    def _held_out(home: Path) -> Path:
        """Return where an agent's held-out images lie, which are not lost with its disk either."""
        return home.parent.parent / "data" / f"{home.name}-held-out"

    def deliver(self, stage: StagePlan, home: AgentHome) -> None:
        """Put the samples of a stage into an agent's data folder, where the engines put them."""
        got = stage.devices.get(home.settings.device)
        for index in got.indices.tolist() if got is not None else ():
            path = home.data_folder / sample_path(self.split.train, stage.number, index)
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


def prepare(scenario: Scenario, folder: Path, *, keys: bool = True) -> ChaosMaterial:
    """Load the data, make the plan of the scenario's first seed, and the coordinator's home.

    With `keys` the devices have tokens to enrol with, and believe what the coordinator signs alone.

    Rounds ask every device and wait for every answer. Raises `ScenarioError` for a scenario whose
    end may depend on when things happen all the same.
    """
    if scenario.stages.opened_by != "schedule":
        raise ScenarioError(
            f"stages.opened_by: {scenario.stages.opened_by!r} lets the time of reports decide the "
            "order of classes, so a disturbed run has no other to equal; use 'schedule'"
        )
    name = scenario.method.name
    if trainer_of(scenario) is not None and name not in _TRAINED:
        raise ScenarioError(
            f"method.name: {name!r} trains in rounds that chaos does not know; use a method of "
            f"statistics, or one of {', '.join(_TRAINED)}"
        )
    seed = scenario.seeds[0]
    split = load_split(scenario.data, seed)
    plan = make_plan(scenario, split, seed)
    home = folder / "coordinator"
    write_new(home, _settings(scenario, seed))
    backbone = load_backbone(scenario.backbone, split)
    if trainer_of(scenario) is not None:
        _import_network(home, scenario, backbone)
    else:
        carry_out(home, import_backbone(home, backbone.name, backbone.data, backbone.preprocessing))
    if not keys:
        send_all(home, [AdmitDevice(device=device) for device in plan.devices])
        return ChaosMaterial(scenario, split, plan, folder)
    for device in plan.devices:
        token = invite(home, device, _TOKEN_HOURS).token
        agent = folder / "agents" / device
        agent.mkdir(parents=True)
        KeyRing.beside(agent, FLEET, device).enrol(token)
    return ChaosMaterial(scenario, split, plan, folder, public_key(home))


def _settings(scenario: Scenario, seed: int) -> CoordinatorSettings:
    """Return settings by which the end does not depend on who is away when."""
    rounds = {"quorum": 1.0, "deadline_seconds": 1e6, "gather_seconds": 1e9, "proxy_seconds": 60.0}
    kept = {"retention": "all", "keep_weights": "all"}
    return CoordinatorSettings(
        fleet=FLEET,
        **method_settings(scenario, seed),
        # However long a device is away, the stage waits for it: a stage that closes without a
        # device is no other model in the end, but takes its parts under another stage.
        stages=StageRules(quorum=1.0, quiet_seconds=3.0, deadline_seconds=1e6),
        models=ModelRules(solve_every_seconds=5.0),
        privacy=scenario.privacy or PrivacyRules(),
        rollouts=RolloutRules(automatic_from=0),
        rounds=round_rules(scenario, seed).model_copy(update=rounds | kept),
        # Installations that are made anew give other parts of the same images.
        bounds=BoundRules(max_share=1.0, max_round_share=1.0),
    )


def _import_network(home: Path, scenario: Scenario, backbone: Backbone) -> None:
    """Begin the lineage of the network that the fleet trains."""
    with tempfile.TemporaryDirectory() as scratch:
        seen = Path(scratch, "network.json")
        seen.write_text(backbone.preprocessing.model_dump_json(), encoding="utf-8")
        frozen = None
        if trains_on_features(scenario):
            frozen = Path(scratch, f"{backbone.name}.onnx")
            frozen.write_bytes(backbone.data)
        carry_out(home, ImportNetwork(network=prepare_network(home, seen, frozen)))
