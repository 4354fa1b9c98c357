"""A feature extractor becomes a backbone, whatever the exporter made of it."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.layers import FeatureChoice, backbone_with_features
from fleetledger.export.noise import noise_inputs
from fleetledger.schemas.models import Preprocessing
from tests.export.networks import (
    COLOUR,
    WIDTH,
    convolution,
    data,
    load,
    network,
    pooled,
    pooled_network,
    value,
)
from tests.export.own_networks import classifier


def run(model: bytes, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs})[0]


def test_a_pooled_network_keeps_its_features_and_gets_a_width() -> None:
    original = data(pooled_network())
    backbone = import_backbone(original, COLOUR)
    inputs = noise_inputs(COLOUR, 5)
    assert backbone.feature_width == WIDTH
    assert np.array_equal(run(backbone.model, inputs), run(original, inputs))


def test_the_bytes_keep_to_the_versions_that_old_runtimes_read_and_are_the_same_every_time() -> (
    None
):
    model = pooled_network(producer_name="somebody's exporter", doc_string="/home/me/net.py")
    model.graph.node[0].doc_string = "File /home/me/net.py, line 3"
    model.metadata_props.add(key="path", value="/home/me")
    first = import_backbone(data(model), COLOUR)
    result = load(first.model)
    assert result.ir_version <= 10
    assert {entry.domain: entry.version for entry in result.opset_import}[""] <= 20
    assert not result.producer_name
    assert b"/home/me" not in first.model
    assert b"somebody" not in first.model
    assert first.digest == import_backbone(data(pooled_network()), COLOUR).digest


@pytest.mark.parametrize("opset", [9, 11, 20, 23])
def test_opsets_out_of_range_are_converted_and_those_within_are_kept(opset: int) -> None:
    original = data(pooled_network(opset=opset))
    backbone = import_backbone(original, COLOUR)
    assert backbone.opset == {9: 17, 23: 20}.get(opset, opset)
    inputs = noise_inputs(COLOUR, 2)
    np.testing.assert_allclose(run(backbone.model, inputs), run(original, inputs), rtol=1e-5)


def test_an_opset_that_cannot_be_converted_is_refused_with_a_way_out() -> None:
    model = pooled_network()
    model.opset_import[0].version = 10_000
    with pytest.raises(ModelFileError, match="opset"):
        import_backbone(data(model), COLOUR)


def test_a_newer_ir_version_is_written_down_to_one_that_runtimes_read() -> None:
    model = pooled_network()
    model.ir_version = onnx.IR_VERSION
    assert load(import_backbone(data(model), COLOUR).model).ir_version <= 10


def test_a_feature_map_is_pooled_only_when_asked() -> None:
    model = data(network(convolution(), value("map", ["batch", WIDTH, 10, 8])))
    with pytest.raises(ModelFileError, match=r"feature map of shape \(7, 10, 8\).*--pool"):
        import_backbone(model, COLOUR)
    backbone = import_backbone(model, COLOUR, pool=True)
    inputs = noise_inputs(COLOUR, 4)
    expected = run(model, inputs).mean(axis=(2, 3))
    assert backbone.feature_width == WIDTH
    np.testing.assert_allclose(run(backbone.model, inputs), expected, rtol=1e-5)


def test_a_feature_map_with_channels_last_is_pooled_over_its_pixels() -> None:
    spec = COLOUR.model_copy(update={"layout": "NHWC"})
    nodes = [helper.make_node("Relu", ["image"], ["map"])]
    shape = ["batch", 12, 10, 3]
    model = data(network((nodes, []), value("map", shape), value("image", shape)))
    backbone = import_backbone(model, spec, pool=True)
    inputs = noise_inputs(spec, 4)
    expected = np.maximum(inputs, 0).mean(axis=(1, 2))
    np.testing.assert_allclose(run(backbone.model, inputs), expected, rtol=1e-5)


def test_pooling_what_is_pooled_is_refused() -> None:
    with pytest.raises(ModelFileError, match="leave --pool out"):
        import_backbone(data(pooled_network()), COLOUR, pool=True)


def test_a_fixed_batch_becomes_free_even_behind_a_reshape() -> None:
    nodes, constants = pooled()
    nodes[-1] = helper.make_node("Reshape", ["pool", "target"], ["flat"])
    constants.append(numpy_helper.from_array(np.array([1, WIDTH]), "target"))
    fixed = network((nodes, constants), value("flat", [1, WIDTH]), value("image", [1, 3, 12, 10]))
    backbone = import_backbone(data(fixed), COLOUR)
    inputs = noise_inputs(COLOUR, 5)
    features = run(backbone.model, inputs)
    assert features.shape == (5, WIDTH)
    assert np.array_equal(features[:1], run(data(fixed), inputs[:1]))


def _of_two_images() -> onnx.ModelProto:
    nodes, constants = pooled()
    offset = np.array([[1], [5]], np.float32).repeat(WIDTH, 1)
    constants.append(numpy_helper.from_array(offset, "offset"))
    nodes.append(helper.make_node("Add", ["flat", "offset"], ["sum"]))
    return network((nodes, constants), value("sum", [2, WIDTH]), value("image", [2, 3, 12, 10]))


def test_a_network_for_two_images_alone_is_given_each_twice() -> None:
    backbone = import_backbone(data(_of_two_images()), COLOUR)
    assert "it takes 2 samples at once and no other number" in backbone.remarks[0]
    inputs = noise_inputs(COLOUR, 5)
    plain = [run(data(_of_two_images()), one[None].repeat(2, 0))[0] for one in inputs]
    np.testing.assert_allclose(run(backbone.model, inputs), plain, rtol=1e-6)


def test_a_network_whose_two_images_influence_each_other_is_refused() -> None:
    model = _of_two_images()
    model.graph.node.append(helper.make_node("ReduceMean", ["sum"], ["mean"], axes=[0], keepdims=1))
    model.graph.node.append(helper.make_node("Sub", ["sum", "mean"], ["centred"]))
    model.graph.output[0].name = "centred"
    with pytest.raises(ModelFileError, match="fixed at 2, and its samples change each other's"):
        import_backbone(data(model), COLOUR)


def test_images_that_influence_each_other_are_refused() -> None:
    nodes, constants = pooled()
    nodes.append(helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[0], keepdims=1))
    nodes.append(helper.make_node("Sub", ["flat", "mean"], ["centred"]))
    model = network((nodes, constants), value("centred", ["batch", WIDTH]))
    with pytest.raises(ModelFileError, match=r"alone than in a batch; .* inference mode"):
        import_backbone(data(model), COLOUR)


def test_weights_that_an_old_exporter_lists_as_inputs_are_no_inputs() -> None:
    nodes, constants = pooled()
    inputs = [value("image", ["batch", 3, 12, 10]), value("weights", [WIDTH, 3, 3, 3])]
    model = network((nodes, constants), value("flat", ["batch", WIDTH]), inputs)
    backbone = import_backbone(data(model), COLOUR)
    assert [entry.name for entry in load(backbone.model).graph.input] == ["image"]


def test_names_inside_branches_are_kept_apart_from_ours() -> None:
    def branch(factor: float) -> onnx.GraphProto:
        node = helper.make_node("Mul", ["flat", "factor"], ["scaled"])
        constant = numpy_helper.from_array(np.array([factor], np.float32), "factor")
        return helper.make_graph([node], "branch", [], [value("scaled", None)], [constant])

    nodes, constants = pooled()
    constants.append(numpy_helper.from_array(np.array(True), "yes"))
    branches = {"then_branch": branch(2.0), "else_branch": branch(3.0)}
    nodes.append(helper.make_node("If", ["yes"], ["chosen"], **branches))
    model = data(network((nodes, constants), value("chosen", ["batch", WIDTH])))
    backbone = import_backbone(model, COLOUR)
    inputs = noise_inputs(COLOUR, 3)
    assert np.array_equal(run(backbone.model, inputs), run(model, inputs))


def test_a_missing_input_name_is_refused_with_the_names_there_are() -> None:
    spec = COLOUR.model_copy(update={"input_name": "pixels"})
    with pytest.raises(ModelFileError, match=r"input_name: .*'pixels'.*\['image'\]"):
        import_backbone(data(pooled_network()), spec)


def test_a_second_input_is_refused() -> None:
    nodes, constants = pooled()
    nodes.append(helper.make_node("Mul", ["flat", "factor"], ["scaled"]))
    inputs = [value("image", ["batch", 3, 12, 10]), value("factor", [1])]
    model = network((nodes, constants), value("scaled", ["batch", WIDTH]), inputs)
    with pytest.raises(ModelFileError, match=r"\['image', 'factor'\]; export it with exactly one"):
        import_backbone(data(model), COLOUR)


def test_a_second_output_is_refused() -> None:
    outputs = [value("flat", ["batch", WIDTH]), value("map", ["batch", WIDTH, 10, 8])]
    with pytest.raises(ModelFileError, match=r"2 outputs \['flat', 'map'\]; keep only"):
        import_backbone(data(network(pooled(), outputs)), COLOUR)


def test_an_output_of_a_wrong_rank_is_refused() -> None:
    nodes, constants = convolution()
    constants.append(numpy_helper.from_array(np.array([0, WIDTH, -1]), "target"))
    nodes.append(helper.make_node("Reshape", ["map", "target"], ["tokens"]))
    model = network((nodes, constants), value("tokens", ["batch", WIDTH, 80]))
    with pytest.raises(ModelFileError, match=r"output: shape \(7, 80\) per image; .*class token"):
        import_backbone(data(model), COLOUR)


def test_an_input_of_another_size_or_type_is_refused() -> None:
    larger = COLOUR.model_copy(update={"size": (16, 16)})
    with pytest.raises(
        ModelFileError, match=r"\(3, 12, 10\), the preprocessing makes \(3, 16, 16\)"
    ):
        import_backbone(data(pooled_network()), larger)
    nodes, constants = pooled()
    nodes.insert(0, helper.make_node("Cast", ["bytes"], ["image"], to=TensorProto.FLOAT))
    image = value("bytes", ["batch", 3, 12, 10], TensorProto.UINT8)
    model = network((nodes, constants), value("flat", ["batch", WIDTH]), image)
    spec = COLOUR.model_copy(update={"input_name": "bytes"})
    with pytest.raises(ModelFileError, match=r"'uint8' are levels from 0 to 255 .*; set divide_by"):
        import_backbone(data(model), spec)


@pytest.mark.parametrize("name", ["features", "map/zero"])
def test_an_input_with_a_name_of_ours_is_refused(name: str) -> None:
    model = pooled_network()
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    spec = COLOUR.model_copy(update={"input_name": name})
    with pytest.raises(ModelFileError, match="reserved; rename the input"):
        import_backbone(data(model), spec)


def test_features_that_are_not_finite_are_refused() -> None:
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Sqrt", ["flat"], ["root"]),
    ]
    dark = Preprocessing(
        mode="RGB", size=(12, 10), mean=(9.0,) * 3, deviation=(1.0,) * 3, input_name="image"
    )
    model = network((nodes, []), value("root", ["batch", 3]))
    with pytest.raises(ModelFileError, match="NaN or infinite features"):
        import_backbone(data(model), dark)


def test_a_classifier_is_no_backbone_and_an_earlier_layer_of_it_is() -> None:
    model = data(classifier(softmax=True))
    words = r"sum to 1: these look like a classifier's probabilities.* --layer flat`"
    with pytest.raises(ModelFileError, match=words):
        import_backbone(model, COLOUR)
    backbone = import_backbone(
        backbone_with_features(model, COLOUR, FeatureChoice(("flat",))), COLOUR
    )
    assert backbone.feature_width == WIDTH


def test_pictures_of_one_colour_and_units_are_told_of_a_backbone() -> None:
    assert import_backbone(data(pooled_network()), COLOUR).remarks == ()
    nodes, constants = pooled()
    constants.append(numpy_helper.from_array(np.array(1, np.float32), "one"))
    nodes.append(helper.make_node("ReduceMax", ["image"], ["largest"], axes=[1, 2, 3], keepdims=0))
    nodes.append(helper.make_node("ReduceMin", ["image"], ["least"], axes=[1, 2, 3], keepdims=0))
    nodes.append(helper.make_node("Sub", ["largest", "least"], ["span"]))
    nodes.append(helper.make_node("Div", ["one", "span"], ["bare"]))
    nodes.append(helper.make_node("Unsqueeze", ["bare", "axis"], ["column"]))
    constants.append(numpy_helper.from_array(np.array([1]), "axis"))
    nodes.append(helper.make_node("Mul", ["flat", "column"], ["scaled"]))
    model = data(network((nodes, constants), value("scaled", ["batch", WIDTH])))
    plain = COLOUR.model_copy(update={"mean": (123.7,) * 3, "deviation": (58.4,) * 3})
    flat, units = import_backbone(model, plain).remarks
    assert flat.startswith("NaN or infinity for a picture that is all black")
    assert units.startswith("mean [123.7, 123.7, 123.7] and deviation [58.4, 58.4, 58.4] look as")


def test_a_last_layer_that_makes_fewer_numbers_is_told_with_what_it_reads() -> None:
    backbone = import_backbone(data(classifier()), COLOUR)
    words = (
        "the last layer makes 3 numbers of 7; if they are a classifier's scores, .* --layer flat"
    )
    assert re.search(words.replace("--", "`--"), " ".join(backbone.remarks))
    looked = backbone_with_features(data(classifier()), COLOUR, FeatureChoice(("flat",)))
    for plain in (looked, data(pooled_network())):
        assert not any("last layer" in told for told in import_backbone(plain, COLOUR).remarks)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ([1, 3, 24, 20], r"shape \(3, 24, 20\), .* \(3, 12, 10\); set size = \[24, 20\]$"),
        ([-1, 3, 24, -1], r"shape \(3, 24, free\), .*; set size = \[24, 10\]$"),
        ([1, 12, 10, 3], r'set layout = "NHWC"$'),
        ([1, 24, 20, 3], r'set layout = "NHWC" and size = \[24, 20\]$'),
        ([1, 1, 12, 10], r'set mode = "L"$'),
        ([1, 4, 12, 10], r"an image has 1 or 3 channels; export a network that takes one"),
    ],
)
def test_what_does_not_fit_is_told_by_the_settings_that_do(shape: list[int], words: str) -> None:
    model = network(pooled(), value("flat", [1, WIDTH]), value("image", shape))
    with pytest.raises(ModelFileError, match=words):
        import_backbone(data(model), COLOUR)


def test_axes_that_are_free_in_any_way_are_those_of_the_preprocessing() -> None:
    expected = import_backbone(data(pooled_network()), COLOUR)
    for batch, high, wide in ((-1, -1, -1), (0, 0, 0), ("N", "H", "W"), (-2, 12, "?")):
        image = value("image", [batch, 3, high, wide])
        backbone = import_backbone(data(pooled_network(image=image)), COLOUR)
        assert backbone.digest == expected.digest
