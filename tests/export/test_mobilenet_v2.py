"""The MobileNetV2 that stands for a real backbone, built without torch."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import WeightsError
from fleetledger.export.mobilenet_v2 import (
    WIDTH,
    Convolution,
    blocks,
    build_mobilenet_v2,
    fold,
    imagenet_preprocessing,
    load_weights,
    random_weights,
)
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from tests.export.networks import load


def test_it_has_the_layers_and_parameters_of_the_published_network() -> None:
    convolutions = [part for block in blocks() for part in block.convolutions]
    names = [part.name for part in convolutions]
    assert len(convolutions) == 52
    assert sum(block.shortcut for block in blocks()) == 10
    assert names[:3] == ["features.0.0", "features.1.conv.0.0", "features.1.conv.1"]
    assert names[-2:] == ["features.17.conv.2", "features.18.0"]
    # torchvision counts 2,223,872 without the classifier, gain and shift of each norm included.
    learned = ("weight", "bias")
    weights = random_weights()
    assert sum(w.size for name, w in weights.items() if name.endswith(learned)) == 2_223_872


def test_folding_equals_convolution_then_batch_norm() -> None:
    generator = np.random.default_rng(0)
    part = Convolution("c", "n", channels_in=4, channels_out=5)
    weights = {
        "c.weight": generator.normal(size=(5, 4, 1, 1)).astype(np.float32),
        "n.weight": generator.normal(size=5).astype(np.float32),
        "n.bias": generator.normal(size=5).astype(np.float32),
        "n.running_mean": generator.normal(size=5).astype(np.float32),
        "n.running_var": generator.uniform(0.1, 2, size=5).astype(np.float32),
    }
    pixel = generator.normal(size=4)
    folded, bias = fold(part, weights)
    convolved = weights["c.weight"][:, :, 0, 0] @ pixel
    scaled = (convolved - weights["n.running_mean"]) / np.sqrt(weights["n.running_var"] + 1e-5)
    expected = scaled * weights["n.weight"] + weights["n.bias"]
    np.testing.assert_allclose(folded[:, :, 0, 0] @ pixel + bias, expected, atol=1e-5)


def test_it_is_imported_as_a_backbone_and_tells_pictures_apart() -> None:
    preprocessing = imagenet_preprocessing(32)
    model = build_mobilenet_v2(32, random_weights())
    assert model == build_mobilenet_v2(32, random_weights())
    assert load(model).ir_version <= 10
    backbone = import_backbone(model, preprocessing)
    assert backbone.feature_width == WIDTH
    inputs = noise_inputs(preprocessing, 4)
    features = next(iter(LoadedModel(backbone.model).run({"image": inputs}).values()))
    assert features.max() > 0.1
    assert len(np.unique(features, axis=0)) == 4


def test_a_state_dict_in_half_precision_is_read_as_float32(tmp_path: Path) -> None:
    half = {name: tensor.astype(np.float16) for name, tensor in random_weights().items()}
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file(half, path)
    loaded = load_weights(path)
    assert {tensor.dtype for tensor in loaded.values()} == {np.dtype(np.float32)}
    del half["features.18.0.weight"]
    safetensors.numpy.save_file(half, path)
    with pytest.raises(WeightsError, match=r"lacks 1 tensor such as 'features\.18\.0\.weight'"):
        load_weights(path)
