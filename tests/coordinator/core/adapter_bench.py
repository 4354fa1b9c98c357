"""A fleet that has learned by statistics, and trains an adapter on top of what was solved."""

from __future__ import annotations

from typing import Any

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.rules import (
    AdapterRules,
    ModelRules,
    RoundRules,
    Rules,
    StageRules,
)
from fleetledger.coordinator.core.work import (
    AverageRound,
    ExportHead,
    PrepareAdapter,
    SolveHead,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import (
    BACKBONE,
    Bench,
    contribution,
    exported,
    names,
    offer,
)
from tests.coordinator.core.round_bench import ABLE, NETWORK, averaged, update_of


class AdapterBench(Bench):
    """Five able devices that have learned one stage by statistics, and run model 1."""

    def __init__(self) -> None:
        super().__init__(
            Rules(
                rounds=RoundRules(per_stage=2),
                stages=StageRules(quiet_seconds=0.0),
                models=ModelRules(solve_every_seconds=0.0),
                adapter=AdapterRules(held_out=0.4),
            )
        )
        self.devices = tuple(f"dev-{number}" for number in range(1, 6))
        for device in self.devices:
            self.command(AdmitDevice(device=DeviceId(device)))
            self.born(device, capabilities=ABLE)
        self.command(ImportBackbone(backbone=BACKBONE))
        self.learn(1, "cat", "dog")

    def learn(self, stage: int, *classes: str) -> None:
        """Learn a stage by statistics, and let everybody run its model."""
        self.command(OpenStage(class_names=names(*classes)))
        for device in self.devices:
            samples = dict.fromkeys(classes, 3)
            self.give(device, contribution(f"{device} {stage}", stage=stage, samples=samples))
        request = self.asked(SolveHead)
        self.make_model(request)
        self.wait(1)
        for device in self.devices:
            version = request.version
            manifest = offer(f"manifest {version}").digest
            self.message(device, ModelStatus(version=version, manifest=manifest, state="active"))

    def asked(self, kind: type[Any]) -> Any:
        """What a worker is asked within a few seconds."""
        for _ in range(5):
            for request in self.wait(1):
                if isinstance(request, kind):
                    return request
        raise AssertionError(f"no {kind.__name__} is asked for")

    def prepare(self) -> PrepareAdapter:
        """Say that an adapter is wanted; return what the worker is asked."""
        command = inputs.OperatorCommand(f"ticket {self.core.state.size}", AdaptModel())
        (found,) = [r for r in self.handle(command) if isinstance(r, PrepareAdapter)]
        return found

    def begin_adapter(self) -> list[Request]:
        """Let an adapter lead, and its first round open."""
        request = self.prepare()
        backbone = request.recipe.lineage
        self.network = NETWORK.model_copy(
            update={
                "class_names": request.recipe.class_names,
                "backbone": FrozenBackbone(
                    name=backbone.name, frozen=backbone.frozen, feature_width=1250
                ),
                "adapts": request.adapts,
            }
        )
        return [*self.handle(self.network), *self.wait(1)]

    def train(self) -> None:
        """Let everybody who is asked answer the open round, and have it averaged."""
        current = self.core.state.rounds.current
        assert current is not None
        stage, number = current.opened.stage, current.opened.number
        for device in sorted(current.cohort):
            key = PartKey(stage=stage, part=number)
            text = f"{device} {number}"
            self.give(device, update_of(number, text, lineage=self.network.digest, key=key))
        self.handle(averaged(self.asked(AverageRound)))

    def train_adapter(self) -> ExportHead:
        """Go through both rounds; return the export that is asked for."""
        self.begin_adapter()
        for _ in range(2):
            self.train()
            self.wait(1)
        request: ExportHead = self.asked(ExportHead)
        return request

    def adapt(self) -> int:
        """Make a version of an adapter; return which."""
        version = self.train_adapter().solved.version
        self.handle(exported(version))
        self.wait(1)
        return version

    def refusal(self, version: int | None = None) -> str:
        """Why no adapter is trained."""
        answer = self.command(AdaptModel(version=version))
        assert not answer.done, answer.text
        return answer.text
