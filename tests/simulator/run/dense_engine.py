"""An engine without a fleet for scenes: a small dense network that nobody trained, exported.

It fits `simulator.engines.interface.Engine`, so that evaluation can be tested without agents.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetledger.export.golden import build_dense_golden
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import Lineage, ModelFacts, pack_model
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.head import BIAS
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.schemas.models import BACKGROUND, Preprocessing
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.records import DeviceRecord, StageRecord
from fleetledger.simulator.scenario.model import Scenario

SEEN_AS = Preprocessing(
    mode="RGB",
    size=(20, 26),
    interpolation="bilinear",
    mean=(0.5, 0.5, 0.5),
    deviation=(0.3, 0.3, 0.3),
    input_name="image",
)
TASKS = ((3, 1), (4,))
"""Digits of each stage; the others are never asked about."""
DEVICE = "device-1"


def prepared_scenes(test: int = 12) -> Prepared:
    """Return a run of two stages with some test scenes; no sample reaches any device."""
    settings = SceneSettings(train=4, test=test, height=32, width=32, most=3, scales=(1, 2))
    scenes = split_digit_scenes(settings, 3)
    split = Split(TaskScenes.of(scenes.train, TASKS), TaskScenes.of(scenes.test, TASKS))
    nothing = {DEVICE: DeviceStage(np.empty(0, np.int64))}
    stages = tuple(StagePlan(n, task, nothing) for n, task in enumerate(TASKS, start=1))
    return Prepared(
        scenario=Scenario.model_validate({"title": "scenes", "engine": {"device": "cpu"}}),
        split=split,
        plan=FleetPlan(3, scenes.test.class_names, stages),
        backbone_name="small_dense",
        backbone=b"",
        preprocessing=SEEN_AS,
        features=None,
    )


def export_scenes(folder: Path, names: tuple[ClassName, ...], version: int = 1) -> Digest:
    """Write a model with a row for background and each name; return its manifest's digest."""
    network = build_segmentation("small_dense", SEEN_AS.shape)
    arrays = network.initial(version, names)
    arrays[BIAS] = np.linspace(0, 0.5, 1 + len(names)).astype(np.float32)
    files = export_segmentation(network, arrays, SEEN_AS)
    lineage = Lineage(files.trunk, build_dense_golden(SEEN_AS), SEEN_AS)
    rows = (ClassName(BACKGROUND), *names)
    facts = ModelFacts(version, "fbl", rows, version, 0)
    model = pack_model(lineage, facts, files.head, NETWORK_RULES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(model.manifest.canonical_bytes())
    for digest, data in model.files.items():
        (folder / digest).write_bytes(data)
    return model.manifest.digest


class DenseEngine:
    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        self._plan = prepared.plan
        self._folder = folder
        self.learned: list[int] = []

    def learn(self, stage: StagePlan) -> StageRecord:
        self.learned.append(stage.number)
        names = self._plan.names(self._plan.seen(stage.number))
        folder = self._folder / f"exported-{stage.number}"
        manifest = export_scenes(folder, names, stage.number)
        return StageRecord(
            stage=stage.number,
            class_names=self._plan.names(stage.classes),
            opened_by="schedule",
            version=stage.number,
            model_classes=names,
            aggregate=manifest,
            head=manifest,
            manifest=manifest,
            fleet_seconds=1.0,
            seconds={"total": 1.0},
            peak_memory_mib=100.0,
            devices={DEVICE: DeviceRecord(group="new", online=True)},
        )

    def model_folder(self, record: StageRecord) -> Path:
        return self._folder / f"exported-{record.stage}"

    def close(self) -> None:
        pass
