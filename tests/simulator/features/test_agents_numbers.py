"""A real network gives the bank and an agent the same bits, whatever their batches and threads."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    SessionSettings,
)
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.learning.numerics.counter_generator import integer_map
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.frozen_features import ProjectedFeatures
from fleetledger.simulator.features.interface import Floats, FrozenModel
from tests.simulator.features.scenes import Heard, split

COLUMNS = 300
BACKBONE = Backbone(
    "mobilenet_v2", build_mobilenet_v2(112, random_weights()), imagenet_preprocessing(112)
)


@pytest.fixture(scope="module")
def model() -> FrozenModel:
    imported = import_backbone(BACKBONE.data, BACKBONE.preprocessing)
    matrix = integer_map(0, imported.feature_width, COLUMNS)
    return FrozenModel(build_frozen(imported.model, "integer", matrix), "integer", matrix, 7)


@pytest.fixture(scope="module")
def banked(model: FrozenModel, tmp_path_factory: pytest.TempPathFactory) -> Floats:
    cache = tmp_path_factory.mktemp("cache")
    features = open_bank(split(), BACKBONE, cache, "cpu", Heard()).frozen(model)
    assert isinstance(features, ProjectedFeatures)
    return features.train(np.arange(30))


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (8, 1), (8, 2), (64, 1), (64, 2)])
def test_an_agents_features_are_the_banks(
    model: FrozenModel, banked: Floats, batch: int, threads: int, tmp_path: Path
):
    path = tmp_path / "frozen.onnx"
    path.write_bytes(model.data)
    agent = Frozen(InferenceSession(path, SessionSettings(threads=threads, batch=batch)), batch)
    samples = split().train
    order = np.random.default_rng(0).permutation(30)  # in other batches than the bank's
    pixels = [preprocess(samples.picture(int(i)), BACKBONE.preprocessing) for i in order]
    assert np.array_equal(agent.features(pixels), banked[order])
    assert len(np.unique(banked)) > 100
