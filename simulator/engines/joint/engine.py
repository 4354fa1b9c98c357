"""Engine of the method `joint`: no fleet, no messages, one network and all images so far."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.backbone import import_backbone
from fleetledger.export.golden import build_golden
from fleetledger.export.network import export_network
from fleetledger.export.network_head import NETWORK_RULES, NetworkHead
from fleetledger.export.package import ExportedModel, Lineage, ModelFacts, pack_model
from fleetledger.learning.networks.network import Network
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.joint.checkpoints import Checkpoints, JointCheckpoint
from fleetledger.simulator.engines.joint.training import JointTraining, RoundOfAll
from fleetledger.simulator.engines.network_inputs import frozen_backbone, inputs_of
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import DeviceRecord, RoundRecord, StageRecord
from fleetledger.simulator.scenario.trainer import JOINT, trainer_of, trains_on_features
from fleetledger.simulator.virtual.training import TrainerPoolSettings

Arrays = Mapping[str, npt.NDArray[Any]]

_MIB = 1024
_NOTE = "Joint is no fleet: one machine that holds every image of all stages so far; no bytes."


class JointEngine:
    """Trains centrally; see `simulator.engines.interface.Engine`."""

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        scenario = prepared.scenario
        trainer, engine = trainer_of(scenario), scenario.engine
        assert trainer is not None
        trainers = replace(TrainerPoolSettings.of(engine), engine="loop")
        self._prepared = prepared
        self._folder = folder
        self._watch = watch
        self._rules = round_rules(scenario, prepared.plan.seed)
        self._trainer = trainer
        self._sight = inputs_of(prepared)
        self._training = JointTraining(trainer, self._sight, prepared.plan.seed, trainers)
        self._meter = NetworkMeter(prepared)
        self._kept = Checkpoints(folder / JOINT)

    def learn(self, stage: StagePlan) -> StageRecord:
        """Train on all images so far; raise `EngineError` where there are too few."""
        self._watch.stage(stage.number, len(self._prepared.plan.stages))
        began, evaluation = time.perf_counter(), 0.0
        first = stage.number == 1 and self._rules.per_first_stage
        rounds = first or self._rules.per_stage
        point, data = self._kept.newest(stage.number), None
        if point is None:
            point = self._kept.begin(stage.number, self._before(stage))
        while point.round < rounds:
            data = data or self._data(stage)
            point, spent = self._round(stage, point, rounds, data)
            evaluation += spent
            self._watch.round_ended(point.records[-1])
            self._watch.round(point.round, rounds)
        return self._record(stage, point, time.perf_counter() - began - evaluation, evaluation)

    def model_folder(self, record: StageRecord) -> Path:
        """Return a folder with the stage's model."""
        return self._folder / f"exported-{record.stage}"

    def close(self) -> None:
        """Nothing runs; the folder stays."""

    def _before(self, stage: StagePlan) -> bytes:
        before = self._kept.newest(stage.number - 1)
        return before.weights if before is not None else self._training.first_weights()

    def _data(self, stage: StagePlan) -> LocalData:
        """Return every image that was dealt to anybody, once."""
        train, stages = self._prepared.split.train, self._prepared.plan.stages[: stage.number]
        dealt = [device.indices for item in stages for device in item.devices.values()]
        indices: npt.NDArray[np.int64] = np.unique(np.concatenate(dealt))
        return LocalData(
            self._sight.train(indices),
            tuple(train.class_names[label] for label in train.labels[indices]),
            tuple(train.digest(int(index)) for index in indices),
        )

    def _round(
        self, stage: StagePlan, point: JointCheckpoint, rounds: int, data: LocalData
    ) -> tuple[JointCheckpoint, float]:
        """Train a round and keep it; return it and the seconds of measuring it."""
        plan, number = self._prepared.plan, point.round + 1
        seen = plan.seen(stage.number)
        began = time.perf_counter()
        of_all = RoundOfAll(
            stage=stage.number,
            number=point.overall + 1,
            of_stage=number,
            rounds=rounds,
            class_names=plan.names(seen),
        )
        combined, loss = self._training.round(of_all, point.weights, data)
        trained = time.perf_counter()
        measured = number % self._prepared.scenario.evaluation.every_rounds == 0
        record = RoundRecord(
            number=number,
            asked=1,
            counted=1,
            seconds=trained - began,
            accuracy=self._accuracy(combined.weights, seen)
            if measured or number == rounds
            else None,
            loss=loss,
        )
        done = point.after(combined.weights, combined.aggregate, record)
        self._kept.keep(done)
        return done, time.perf_counter() - trained

    def _accuracy(self, weights: bytes, seen: tuple[int, ...]) -> float:
        settings = self._training.assignment.model_dump(mode="json")
        return self._meter.accuracy(self._trainer.method, settings, weights, seen)

    def _record(
        self, stage: StagePlan, point: JointCheckpoint, total: float, evaluation: float
    ) -> StageRecord:
        exporting = time.perf_counter()
        manifest = self._export(stage, point)
        export = time.perf_counter() - exporting
        plan = self._prepared.plan
        assert point.aggregate is not None
        return StageRecord(
            stage=stage.number,
            class_names=plan.names(stage.classes),
            opened_by="schedule",
            version=stage.number,
            model_classes=self._training.names(point.weights),
            aggregate=point.aggregate,
            head=Digest.of(point.weights),
            manifest=manifest,
            fleet_seconds=total,
            seconds={
                "training": total,
                "export": export,
                "total": total + export,
                "evaluation": evaluation,
            },
            peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB,
            devices={
                name: DeviceRecord(
                    group=met.group, online=met.online, arrived_samples=len(met.indices)
                )
                for name, met in stage.devices.items()
            },
            rounds=point.records,
            notes=(*stage.notes, _NOTE),
        )

    def _export(self, stage: StagePlan, point: JointCheckpoint) -> Digest:
        """Write the stage's model, and return the digest of its manifest."""
        network, arrays, names = self._training.network(point.weights)
        facts = ModelFacts(
            version=stage.number,
            method=self._trainer.method,
            class_names=names,
            ledger_index=stage.number,
            created_ns=0,
            logit_scale=self._training.assignment.logit_scale,
        )
        model = export_joint(self._prepared, network, arrays, facts)
        return write_model(self._folder / f"exported-{stage.number}", model)


def export_joint(
    prepared: Prepared, network: Network, arrays: Arrays, facts: ModelFacts
) -> ExportedModel:
    """Return a trained network as a model; raise `ModelFileError` or `ParityError`."""
    preprocessing = prepared.preprocessing
    if not trains_on_features(prepared.scenario):
        files = export_network(network, arrays, preprocessing)
        return pack_model(Lineage(files.trunk, files.golden, preprocessing), facts, files.head)
    backbone = import_backbone(prepared.backbone, preprocessing)
    head = NetworkHead(network, arrays, backbone.feature_width)
    frozen = frozen_backbone(backbone)
    lineage = Lineage(frozen, build_golden(frozen, preprocessing), preprocessing)
    return pack_model(lineage, facts, head, NETWORK_RULES)


def write_model(folder: Path, model: ExportedModel) -> Digest:
    """Write a model's files, and return the digest of its manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for digest, data in model.files.items():
        (folder / digest).write_bytes(data)
    (folder / "manifest.json").write_bytes(model.manifest.canonical_bytes())
    return model.manifest.digest
