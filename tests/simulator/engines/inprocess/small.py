"""What the tests of the engine in one process share: small fleets, and sums made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.device_agent.core.records import Job
from fleetledger.device_agent.home.part_secret import part_context
from fleetledger.device_agent.settings import AgentDataSettings, AgentSettings
from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.paths import image_path
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.virtual.seeds import seeded_secret
from tests.simulator.engines.mqtt.small import Quiet, prepare, small_scenario

__all__ = ["Quiet", "fleet_of", "prepare", "small_scenario"]

PART = 40
"""Samples of one part, as `small_scenario` has it."""


def fleet_of(
    cache: Path, form: str = "exact", *, plan: FleetPlan | None = None, **sections: Any
) -> Prepared:
    prepared = prepare(small_scenario(form, **sections), cache)
    return replace(prepared, plan=plan) if plan is not None else prepared


def changed(plan: FleetPlan, stage: int, **devices: Mapping[str, Any] | None) -> FleetPlan:
    """A plan in which devices meet a stage otherwise: fields to replace, or None for absent."""

    def named(name: str) -> DeviceId:
        return DeviceId(name.replace("_", "-"))

    def met(item: StagePlan) -> StagePlan:
        if item.number != stage:
            return item
        present = dict(item.devices)
        for name, fields in devices.items():
            if fields is None:
                present.pop(named(name))
            else:
                empty = DeviceStage(np.empty(0, np.int64))
                present[named(name)] = replace(present.get(named(name), empty), **fields)
        return replace(item, devices=present)

    return replace(plan, stages=tuple(met(item) for item in plan.stages))


def learn_all(prepared: Prepared, folder: Path) -> list[StageRecord]:
    engine = InProcessEngine(prepared, folder, Quiet())
    try:
        return [engine.learn(stage) for stage in prepared.plan.stages]
    finally:
        engine.close()


def digests(records: Sequence[StageRecord]) -> list[tuple[Digest, Digest]]:
    return [(record.aggregate, record.head) for record in records]


def bodies(engine: InProcessEngine) -> Iterator[tuple[DeviceId | None, EntryBody]]:
    for entry in engine._fleet.coordinator.engine.ledger.entries():
        yield entry.device, read_entry(entry.kind, entry.body)


def counted_of(records: Sequence[StageRecord], device: str) -> list[int]:
    name = DeviceId(device)
    return [r.devices[name].counted_samples if name in r.devices else 0 for r in records]


class ByHand:
    """What the ledger of a plan must come to, from the method's sides alone."""

    def __init__(self, prepared: Prepared, engine: InProcessEngine) -> None:
        coordinator = engine._fleet.coordinator
        lineage = coordinator.state.lineages.current
        assert isinstance(lineage, BackboneImported)
        self.prepared = prepared
        self.lineage = lineage.frozen.digest
        self.side = statistics_coordinator(lineage.method)
        self.device_half = statistics_device(lineage.method)
        self.assignment = self.side.read_assignment(lineage.settings)
        self.features = LineageFeatures(
            prepared.features, coordinator.blobs, lambda: coordinator.state.lineages.current
        )(self.lineage)

    def pooled(self, stages: int) -> Digest:
        """Digest of the sum of everything that reached somebody, as one device's data."""
        indices = np.concatenate(
            [
                met.indices
                for stage in self.prepared.plan.stages[:stages]
                for met in stage.devices.values()
            ]
        )
        total = self.side.aggregate_type.empty(self.assignment)
        for start in range(0, len(indices), PART):
            total = total + self._part(indices[start : start + PART], None)
        return total.digest

    def by_parts(self, stages: int, folder: Path) -> Digest:
        """Digest of the sum of the parts that every device cuts, each with its own context."""
        total = self.side.aggregate_type.empty(self.assignment)
        plan = self.prepared.plan
        for stage in plan.stages[:stages]:
            for name, met in stage.devices.items():
                for indices in self._cut(stage.number, met.indices):
                    context = self._context(name, stage.number, folder)
                    total = total + self._part(indices, context, stage.number)
        return total.digest

    def _cut(self, stage: int, indices: np.ndarray) -> Iterator[np.ndarray]:
        train = self.prepared.split.train
        names = train.class_names
        ordered = sorted(
            indices.tolist(), key=lambda i: image_path(names[train.labels[i]], stage, i)
        )
        while ordered:
            part, ordered = ordered[:PART], ordered[PART:]
            yield np.array(part, np.int64)

    def _context(self, name: DeviceId, stage: int, folder: Path) -> Any:
        state = folder / name
        state.mkdir(parents=True, exist_ok=True)
        (state / "secret").write_bytes(seeded_secret(self.prepared.plan.seed, name))
        settings = AgentSettings(
            device=name, fleet="simulation", data=AgentDataSettings(folder=Path("data"))
        )
        job = Job(PartKey(stage=stage, part=0), 0, "stsa", self.lineage)
        return part_context(settings, job, state)

    def _part(self, indices: np.ndarray, context: Any, stage: int = 1) -> Any:
        train = self.prepared.split.train
        labels = [str(train.class_names[label]) for label in train.labels[indices]]
        more = () if context is None else (context,)
        made = self.device_half.finish(self.assignment, self.features.train(indices), labels, *more)
        statistics = self.side.check(self.assignment, made.payload)
        return self.side.aggregate_type.of(self.assignment, statistics, stage)
