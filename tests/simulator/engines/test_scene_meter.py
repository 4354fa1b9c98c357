"""A network in training is measured on test scenes as its exported pair would be."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fleetledger.export.golden import build_dense_golden
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import Lineage, ModelFacts, pack_model
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.engines import scene_meter
from fleetledger.simulator.engines.scene_meter import Rows, chosen_scenes, mean_iou
from fleetledger.simulator.run.scene_evaluation import SceneEvaluation
from tests.simulator.run.dense_engine import SEEN_AS, DenseEngine, prepared_scenes

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def test_the_measure_is_the_miou_of_the_exported_pair(tmp_path: Path):
    prepared = prepared_scenes()
    scenes = prepared.split.test.scenes
    stage = prepared.plan.stages[0]
    names = prepared.plan.names(stage.classes)
    network = build_segmentation("small_dense", SEEN_AS.shape)
    arrays = network.initial(7, names)
    files = export_segmentation(network, arrays, SEEN_AS)
    lineage = Lineage(files.trunk, build_dense_golden(SEEN_AS), SEEN_AS)
    facts = ModelFacts(1, "fbl", (ClassName(BACKGROUND), *names), 1, 0)
    model = pack_model(lineage, facts, files.head, NETWORK_RULES)
    for digest, data in model.files.items():
        (tmp_path / digest).write_bytes(data)
    (tmp_path / "manifest.json").write_bytes(model.manifest.canonical_bytes())

    evaluation = SceneEvaluation(prepared, prepared.split.test)
    record = DenseEngine(prepared, tmp_path, None).learn(stage)
    kept = evaluation.kept(None, 0)
    _, after = evaluation.after(stage, record, tmp_path, kept)
    rows = Rows(network, *to_tensors(arrays), names)
    measured = mean_iou(rows, scenes, SEEN_AS, stage.classes, CPU)
    assert measured == pytest.approx(after.answers.scores(1).all, abs=1e-3)
    assert 0 < measured < 1


def test_of_many_scenes_evenly_many_are_measured(monkeypatch: pytest.MonkeyPatch):
    scenes = prepared_scenes(test=40).split.test.scenes
    asked = np.flatnonzero(scenes.labels[:, [1, 3]].any(axis=1))
    assert np.array_equal(chosen_scenes(scenes, [1, 3]), asked)
    monkeypatch.setattr(scene_meter, "MOST_SCENES", 5)
    chosen = chosen_scenes(scenes, [1, 3])
    assert len(chosen) == 5
    assert set(chosen.tolist()) <= set(asked.tolist())
    assert (chosen[0], chosen[-1]) == (asked[0], asked[-1])
