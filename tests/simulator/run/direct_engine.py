"""An engine without a fleet: ridge regression on what the plan deals out, exported as a model.

It fits `simulator.engines.interface.Engine`, so that a run can be tested without agents.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.package import Lineage, SolvedHead, export_model
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.features.interface import FrozenModel
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import DeviceRecord, StageRecord

RIDGE = 1000.0


class DirectEngine:
    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        self._prepared = prepared
        self._folder = folder
        self._watch = watch
        self.learned: list[int] = []
        self.closed = False
        backbone = import_backbone(prepared.backbone, prepared.preprocessing)
        half = statistics_coordinator(prepared.scenario.method.name)
        settings = prepared.scenario.method.settings
        assignment = half.assign(settings, backbone.feature_width)
        tail = half.feature_map(assignment)
        kind, matrix, bits = tail.kind, tail.matrix, tail.feature_bits
        frozen = build_frozen(backbone.model, kind, matrix, feature_bits=bits)
        golden = build_golden(frozen, prepared.preprocessing)
        self._lineage = Lineage(frozen, golden, prepared.preprocessing)
        self._features = prepared.features.frozen(FrozenModel(frozen, kind, matrix, bits))

    def learn(self, stage: StagePlan) -> StageRecord:
        plan = self._prepared.plan
        self.learned.append(stage.number)
        seen = plan.seen(stage.number)
        dealt = [
            device.indices for s in plan.stages[: stage.number] for device in s.devices.values()
        ]
        indices = np.concatenate(dealt)
        h = self._features.train(indices).astype(np.float64)
        wanted = self._prepared.split.train.labels[indices][:, np.newaxis] == np.array(seen)
        gram = h.T @ h + RIDGE * np.eye(h.shape[1])
        weights = np.linalg.solve(gram, h.T @ wanted).T
        names = plan.names(seen)
        solved = SolvedHead(stage.number, "stsa", names, weights, stage.number, 0)
        exported = export_model(self._lineage, solved)
        folder = self._model_folder(stage.number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifest.json").write_bytes(exported.manifest.canonical_bytes())
        for digest, data in exported.files.items():
            (folder / digest).write_bytes(data)
        for done in range(len(stage.devices)):
            self._watch.agents(done + 1, len(stage.devices))
        return StageRecord(
            stage=stage.number,
            class_names=plan.names(stage.classes),
            opened_by="schedule",
            version=stage.number,
            model_classes=names,
            aggregate=Digest.of(gram.tobytes()),
            head=Digest.of(weights.tobytes()),
            manifest=exported.manifest.digest,
            fleet_seconds=1.0,
            seconds={"total": 1.0},
            peak_memory_mib=100.0,
            devices={
                name: DeviceRecord(group=device.group, online=device.online)
                for name, device in stage.devices.items()
            },
            contributions=len(stage.devices) * stage.number,
        )

    def model_folder(self, record: StageRecord) -> Path:
        return self._model_folder(record.stage)

    def close(self) -> None:
        self.closed = True

    def _model_folder(self, stage: int) -> Path:
        return self._folder / f"exported-{stage}"
