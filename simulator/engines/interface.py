"""What every engine is given and gives back; the runner knows no more of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.features.interface import FeatureBank
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.records import RoundRecord, StageRecord
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.scenario.model import Scenario


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before the fleet of one seed starts."""

    scenario: Scenario
    split: Split
    plan: FleetPlan
    backbone_name: str
    backbone: bytes
    """ONNX: preprocessed images in, features out; empty where the fleet trains its network."""
    preprocessing: AnyPreprocessing
    features: FeatureBank
    base: bytes | None = None
    """The weights that the fleet's network begins with where its first stage was trained in one
    place, with a row in the head for each of that stage's classes."""


class Watch(Protocol):
    """Whoever wants to see progress: a screen, or a test."""

    def stage(self, number: int, total: int) -> None:
        """Say that a stage begins."""

    def phase(self, text: str) -> None:
        """Say that something else begins, such as extracting features."""

    def remark(self, text: str) -> None:
        """Say what a person should read, and find still on the screen when the run has ended."""

    def agents(self, done: int, total: int) -> None:
        """Say how many agents have done their part of the stage, or of the round."""

    def round_ended(self, record: RoundRecord) -> None:
        """Tell of a round that ended now, as its record has it."""

    def round(self, done: int, total: int) -> None:
        """Say how many rounds of the stage are done; a caller may stop the run here."""


class Engine(Protocol):
    """A fleet of one seed, led stage by stage.

    It is made on a folder; on one that a former run left, it goes on where that one stopped.
    """

    def learn(self, stage: StagePlan) -> StageRecord:
        """Let the fleet learn a stage to its end, and return when its model is exported.

        A stage that was begun before is finished. `seconds` has no `evaluation` yet. Raises
        `EngineError` when the fleet does not get through it.
        """

    def model_folder(self, record: StageRecord) -> Path:
        """Return a folder with the stage's `manifest.json` and the files it names by digest."""

    def close(self) -> None:
        """Stop everything; the folder stays."""


@runtime_checkable
class RollsOut(Protocol):
    """An engine whose fleet takes candidates group by group."""

    def roll_out(self) -> RolloutRecord:
        """Let a candidate of the last stage's model go out to its end, whichever that is.

        A rollout that was begun before is gone on with. Raises `EngineError` when it comes to none.
        """
