"""A small fleet that trains a network, and its rounds done by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.methods.registry import training_coordinator, training_device
from fleetledger.methods.training.exchange import (
    CountedUpdate,
    FitInstruction,
    LocalData,
    RoundConfig,
)
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.network_inputs import inputs_of
from fleetledger.simulator.engines.paths import image_path
from fleetledger.simulator.engines.presence import delivered
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import MethodSettings
from tests.simulator.engines.mqtt.small import Quiet

QUICK_LGA = {
    "detection": "stage",
    "memory_per_class": 3,
    "perturbation_steps": 2,
    "inversion_steps": 2,
    "inversion_kept": 2,
    "worst_distance": 1e9,
}


class Watching(Quiet):
    """Calls somebody when rounds end."""

    def __init__(self, on_round: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self.on_round = on_round

    def round(self, done: int, total: int) -> None:
        self.on_round(done)


def small(**sections: Any) -> Scenario:
    """Three devices, two stages of two classes, three rounds each."""
    settings = {"network": "mlp", "epochs": 1, "batch": 8, "rate": 0.1}
    content: dict[str, Any] = {
        "title": "a few digits in rounds",
        "data": {"set": "digits", "per_class": 12, "test_per_class": 10},
        "stages": {"classes": 4, "count": 2, "order": "as-is"},
        "devices": {"count": 3, "partition": {"rule": "iid"}},
        "rounds": {"per_stage": 3},
        "method": {"name": "rounds", "settings": settings},
    }
    for name, section in sections.items():
        content[name] = {**content.get(name, {}), **section}
    if "method" in sections:
        content["method"]["settings"] = settings | sections["method"].get("settings", {})
    return Scenario.model_validate(content)


def on_features(method: str = "rounds", **sections: Any) -> Scenario:
    """Return `small` on the features of the frozen network: the digits' pixels."""
    made = small(**sections)
    if method == "fedhaf":
        settings = {"batch": 8, "hidden": 32, "width": 16, "head_epochs": 2}
        learning = MethodSettings(name=method, settings=settings)
    else:
        learning = MethodSettings(name=method, settings=made.method.settings, on_features=True)
    return made.model_copy(update={"method": learning})


def with_proxy(devices: int = 3, **sections: Any) -> Scenario:
    """Return `small` with LGA; one of the devices only looks."""
    made: dict[str, Any] = {
        "devices": {"count": devices, "policy": {"publish_gradients": True}},
        "rounds": {"per_stage": 2, "cohort": devices - 1},
        "method": {"name": "lga", "settings": QUICK_LGA},
    }
    return small(**made, **sections)


def distilling(**sections: Any) -> Scenario:
    """Return `small` with DCID, whose first stage is trained in one place; owners share images."""
    settings = {
        "preset": "dcid-icarl",
        "evaluation": "head",
        "base": "central",
        "anchors_per_class": 2,
        "shared_per_class": 2,
        "distil_epochs": 1,
        "synthetic_images": 8,
    }
    method = sections.pop("method", {})
    made: dict[str, Any] = {
        "devices": {"policy": {"publish_images": True}},
        "rounds": {"per_stage": 2},
        "method": {
            "name": "dcid",
            "base": {"epochs": 6, "batch": 8, "rate": 0.1},
            **method,
            "settings": settings | method.get("settings", {}),
        },
    }
    made |= {name: made.get(name, {}) | section for name, section in sections.items()}
    return small(**made)


def prepared(scenario: Scenario, plan: FleetPlan | None = None) -> Prepared:
    made = PreparedSeed.load(scenario, 1).prepare(Quiet())
    return made if plan is None else replace(made, plan=plan)


def learn(
    what: Prepared, folder: Path, on_round: Callable[[InProcessEngine, int], None] | None = None
) -> tuple[list[StageRecord], list[EntryBody]]:
    """Return the records of all stages, and the entries of the ledger."""
    watch = Watching()
    engine = InProcessEngine(what, folder, watch)
    if on_round is not None:
        watch.on_round = lambda done: on_round(engine, done)
    try:
        records = [engine.learn(stage) for stage in what.plan.stages]
        return records, list(bodies(engine))
    finally:
        engine.close()


def bodies(engine: InProcessEngine) -> Iterator[EntryBody]:
    for entry in engine._fleet.coordinator.engine.ledger.entries():
        yield read_entry(entry.kind, entry.body)


def final_weights(what: Prepared, folder: Path) -> dict[str, np.ndarray]:
    """Train all stages and return the tensors of the fleet's network."""
    engine = InProcessEngine(what, folder, Watching())
    for stage in what.plan.stages:
        engine.learn(stage)
    state, blobs = engine._fleet.coordinator.state, engine._fleet.coordinator.blobs
    assert state.lineages.network is not None
    assert state.rounds.weights is not None
    side = training_coordinator(state.lineages.network.method)
    assignment = side.read_assignment(state.lineages.network.settings)
    _, arrays, _ = side.network_of(assignment, blobs.get(state.rounds.weights.offer.digest))
    engine.close()
    return arrays


@dataclass(frozen=True)
class Averaged:
    """What a round came to."""

    counted: tuple[DeviceId, ...]
    aggregate: Digest
    weights: Digest


def rounds_by_hand(what: Prepared, folder: Path) -> list[tuple[Averaged, Averaged]]:
    """Train all stages; return every round as the ledger has it, and as both sides give it."""
    engine = InProcessEngine(what, folder, Watching())
    for stage in what.plan.stages:
        engine.learn(stage)
    coordinator = engine._fleet.coordinator
    ledger = list(coordinator.engine.ledger.entries())
    opened: dict[int, RoundOpened] = {}
    stages: dict[int, tuple[str, ...]] = {}
    compared, hand = [], None
    for entry in ledger:
        body = read_entry(entry.kind, entry.body)
        if isinstance(body, NetworkImported):
            hand = ByHand(what, body, coordinator.blobs.get(body.weights.digest))
        elif isinstance(body, StageOpened):
            stages[body.stage] = body.class_names
        elif isinstance(body, RoundOpened):
            opened[body.number] = body
        elif isinstance(body, WeightsAveraged):
            assert hand is not None
            asked = opened[body.number]
            counted = tuple(device for i in body.inputs if (device := ledger[i].device) is not None)
            expected = hand.average(asked, list(counted), stages[asked.stage])
            compared.append(
                (
                    Averaged(counted, body.aggregate, body.weights.digest),
                    Averaged(counted, *expected),
                )
            )
    engine.close()
    return compared


class ByHand:
    """Both sides of the method, called one after the other as the ledger tells of them.

    For methods whose devices remember nothing.
    """

    def __init__(self, what: Prepared, network: NetworkImported, first: bytes) -> None:
        self._what = what
        self._coordinator = training_coordinator("rounds")
        self._device = training_device("rounds")
        self._assignment = self._coordinator.read_assignment(network.settings)
        self._weights = first
        self._sight = inputs_of(what)

    def average(
        self, opened: RoundOpened, counted: list[DeviceId], stage_names: tuple[str, ...]
    ) -> tuple[Digest, Digest]:
        """Return the digests of sum and mean of a round in which these devices count."""
        answers = [self._answer(opened, device, stage_names) for device in counted]
        fields = RoundConfig.__dataclass_fields__
        given = {name: getattr(opened, name) for name in fields if hasattr(opened, name)}
        config = RoundConfig(**{**given, "weights": self._weights, "extras": {}})
        made = self._coordinator.combine(self._assignment, config, answers)
        self._weights = made.weights
        return made.aggregate, Digest.of(made.weights)

    def _answer(
        self, opened: RoundOpened, device: DeviceId, stage_names: tuple[str, ...]
    ) -> CountedUpdate:
        from fleetledger.learning.training.loop import train_alone
        from fleetledger.learning.training.settings import TrainingEngineSettings

        fields = {
            name: getattr(opened, name)
            for name in RoundOrder.model_fields
            if name in type(opened).model_fields
        }
        instruction = FitInstruction(
            opened.stage, stage_names, RoundOrder(**fields), self._weights, {}, device
        )
        begun = self._device.begin(
            self._assignment,
            instruction,
            self._data(device, opened),
            None,
            self._sight.pictures(),
        )
        assert begun is not None
        answer = self._device.finish(
            self._assignment, begun, train_alone(begun.work, TrainingEngineSettings())
        )
        return CountedUpdate(sum(answer.samples.values()), lambda: answer.payload)

    def _data(self, device: DeviceId, opened: RoundOpened) -> LocalData:
        train = self._what.split.train
        found = sorted(
            (str(image_path(train.class_names[train.labels[i]], stage, int(i))), int(i))
            for stage, indices in delivered(self._what.plan, device, opened.stage)
            for i in indices
            if train.class_names[train.labels[i]] in opened.class_names
        )
        indices = [index for _, index in found]
        return LocalData(
            self._sight.train(np.array(indices, np.int64)),
            tuple(train.class_names[train.labels[index]] for index in indices),
            tuple(train.digest(index) for index in indices),
        )
