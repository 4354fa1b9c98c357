"""A backbone puts out several layers, of a picture and of its mirror image; ONNX alone does it."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError, WeightsError
from fleetledger.export.frozen import build_frozen
from fleetledger.export.layers import FeatureChoice, backbone_with_features
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    load_weights,
    random_weights,
)
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import Preprocessing
from tests.export.networks import COLOUR, WIDTH, data, pooled_network

SEEN = imagenet_preprocessing(32)
LAYERS = ("features.11.conv.1", "features.16")


@pytest.fixture(scope="module")
def network() -> bytes:
    return build_mobilenet_v2(32, random_weights())


def run(model: bytes, inputs: np.ndarray, *outputs: str) -> list[np.ndarray]:
    name = onnx.load_model_from_string(model).graph.input[0].name
    return list(LoadedModel(model).run({name: inputs}, outputs or None).values())


def whole(model: bytes, *values: str) -> bytes:
    """Return the model with further outputs, as a slow and obvious reference."""
    shown = onnx.load_model_from_string(model)
    del shown.graph.output[:]
    for value in values:
        shown.graph.output.append(onnx.helper.make_tensor_value_info(value, 1, None))
    return shown.SerializeToString()


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True))


def test_layers_are_pooled_scaled_alike_and_put_side_by_side(network: bytes) -> None:
    inputs = noise_inputs(SEEN, 3)
    maps = run(whole(network, *LAYERS), inputs)
    expected = np.concatenate([unit(found.mean(axis=(2, 3))) for found in maps], axis=1)
    backbone = import_backbone(backbone_with_features(network, SEEN, FeatureChoice(LAYERS)), SEEN)
    assert backbone.feature_width == 384 + 160
    np.testing.assert_allclose(run(backbone.model, inputs)[0], expected, atol=1e-5)


def test_what_lies_behind_the_last_layer_is_left_out(network: bytes) -> None:
    kept = backbone_with_features(network, SEEN, FeatureChoice(("features.11",)))
    names = {tensor.name for tensor in onnx.load_model_from_string(kept).graph.initializer}
    assert "features.11.conv.2.weight" in names
    assert not any(name.startswith(("features.12.", "features.18.")) for name in names)
    assert len(kept) < len(network) / 4


@pytest.mark.parametrize("layers", [(), LAYERS])
@pytest.mark.parametrize("opset", [11, 17, 20])
def test_a_mirrored_picture_has_the_features_of_the_picture(
    network: bytes, layers: tuple[str, ...], opset: int
) -> None:
    model, seen = network, SEEN
    if opset != 17:
        model, seen, layers = data(pooled_network(opset=opset)), COLOUR, layers and ("map",)
    inputs = noise_inputs(seen, 3)
    backbone = import_backbone(
        backbone_with_features(model, seen, FeatureChoice(layers, mirror=True)), seen
    )
    single = import_backbone(backbone_with_features(model, seen, FeatureChoice(layers)), seen)
    (features,) = run(backbone.model, inputs)
    both = [run(single.model, view)[0] for view in (inputs, inputs[..., ::-1].copy())]
    np.testing.assert_allclose(features, (both[0] + both[1]) / 2, atol=1e-5)
    (mirrored,) = run(backbone.model, inputs[..., ::-1].copy())
    np.testing.assert_allclose(mirrored, features, atol=1e-5)
    assert backbone.opset == opset


def test_channels_may_come_last() -> None:
    nodes = [
        onnx.helper.make_node("Transpose", ["image"], ["turned"], perm=[0, 3, 1, 2]),
        onnx.helper.make_node("Flatten", ["turned"], ["flat"], axis=1),
    ]
    seen = Preprocessing(
        mode="RGB",
        size=(2, 4),
        layout="NHWC",
        mean=(0,) * 3,
        deviation=(1,) * 3,
        input_name="image",
    )
    picture = onnx.helper.make_tensor_value_info("image", 1, ["n", 2, 4, 3])
    output = onnx.helper.make_tensor_value_info("flat", 1, ["n", 24])
    graph = onnx.helper.make_graph(nodes, "graph", [picture], [output])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    given = model.SerializeToString()
    inputs = noise_inputs(seen, 2)
    (features,) = run(backbone_with_features(given, seen, FeatureChoice(mirror=True)), inputs)
    both = (inputs + inputs[:, :, ::-1]) / 2
    np.testing.assert_allclose(features, both.transpose(0, 3, 1, 2).reshape(2, -1), atol=1e-6)


def test_a_layer_of_zeros_stays_zeros() -> None:
    model = backbone_with_features(data(pooled_network()), COLOUR, FeatureChoice(("map",)))
    (features,) = run(model, np.zeros((2, 3, 12, 10), np.float32))
    assert features.shape == (2, WIDTH)
    assert not features.any()


def test_equal_networks_give_equal_bytes_and_the_frozen_model_takes_them(network: bytes) -> None:
    choice = FeatureChoice(LAYERS, mirror=True)
    first, second = (backbone_with_features(network, SEEN, choice) for _ in range(2))
    assert first == second
    frozen = build_frozen(import_backbone(first, SEEN).model, "none")
    (quantised,) = run(frozen, noise_inputs(SEEN, 2))
    assert quantised.shape == (2, 544)
    assert (np.abs(quantised).max(axis=1) == 127).all()
    assert backbone_with_features(network, SEEN, FeatureChoice()) == network


def test_nodes_of_torchs_exporter_are_found_by_their_module() -> None:
    model = pooled_network()
    model.graph.node[0].name = "/features/features.3/conv/conv.1/conv.1.0/Conv"
    model.graph.node[1].name = "/features/features.3/conv/conv.1/conv.1.2/Relu"
    model.graph.node[2].name = "/features/features.30/GlobalAveragePool"
    by_module = backbone_with_features(data(model), COLOUR, FeatureChoice(("features.3.conv.1",)))
    assert by_module == backbone_with_features(data(model), COLOUR, FeatureChoice(("map",)))


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (
            FeatureChoice(("features.99",)),
            r"layers: 'features\.99' is no value .* the last ones are",
        ),
        (FeatureChoice(("map", "map")), "layers: map, map; name each layer once"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(choice: FeatureChoice, told: str) -> None:
    with pytest.raises(ModelFileError, match=told):
        backbone_with_features(data(pooled_network()), COLOUR, choice)


def test_a_map_is_no_vector_that_could_be_averaged() -> None:
    model = pooled_network()
    del model.graph.node[2:]
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("map", 1, ["batch", WIDTH, 10, 8])
    )
    with pytest.raises(ModelFileError, match="mirror: true, but an image gives an output of shape"):
        backbone_with_features(data(model), COLOUR, FeatureChoice(mirror=True))


def test_a_file_of_weights_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    with pytest.raises(WeightsError, match="cannot be read"):
        load_weights(tmp_path / "w.safetensors")
