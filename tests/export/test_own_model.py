"""A model of somebody's own becomes a pair of files, or is refused in words."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import ModelProto, TensorProto, helper, numpy_helper

from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import golden_inputs
from fleetledger.export.noise import noise_inputs
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import FEATURES, PROBABILITIES, SCORES, SMALL_SCORES
from fleetledger.schemas.values import ClassName
from tests.export.networks import data, network, pooled, value
from tests.export.own_networks import PICTURES, boxes, classifier, segmenter

BIRDS = OwnModelRequest(PICTURES, (ClassName("wren"), ClassName("robin"), ClassName("finch")))
PIXELS = replace(
    BIRDS,
    class_names=(ClassName("background"), ClassName("cat"), ClassName("dog")),
    answers="pixels",
)
RAW = replace(BIRDS, class_names=(), answers="raw")


def scores_of(model: CutModel, inputs: Any, output: str = SCORES) -> Any:
    features = LoadedModel(model.frozen).run({"image": inputs})[FEATURES]
    return LoadedModel(model.head).run({FEATURES: features})[output]


def given(model: ModelProto, inputs: Any) -> Any:
    return next(iter(LoadedModel(data(model)).run({"image": inputs}).values()))


def test_a_classifier_is_cut_before_its_last_layer_and_gives_what_it_gave() -> None:
    network_of_birds, inputs = classifier(), noise_inputs(PICTURES, 5)
    model = own_model(data(network_of_birds), BIRDS)
    assert (model.cut, model.feature_width, model.output_shape) == ("flat", 7, ())
    np.testing.assert_allclose(scores_of(model, inputs), given(network_of_birds, inputs), rtol=1e-5)
    assert model.parity.agreement == 1
    assert model.parity.samples == 8


def two_branches(*, behind: int) -> ModelProto:
    """A convolution, and two branches of a convolution each that are added, as detectors have."""
    draw = np.random.default_rng(4)
    shapes = {"first": (8, 3, 3, 3), "left": (behind, 8, 3, 3), "right": (behind, 8, 3, 3)}
    made = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    made["rows"] = np.array([0, behind, 48])
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["stem"], name="stem node"),
        helper.make_node("Conv", ["stem", "left"], ["on the left"]),
        helper.make_node("Conv", ["stem", "right"], ["on the right"]),
        helper.make_node("Add", ["on the left", "on the right"], ["both"]),
        helper.make_node("Reshape", ["both", "rows"], ["boxes"]),
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in made.items()]
    return network((nodes, constants), value("boxes", ["batch", behind, 48]))


def test_a_cut_at_the_first_layer_is_none_unless_it_is_asked_for() -> None:
    """A head runs on the processor: most of a detector does not belong there."""
    model = own_model(data(two_branches(behind=5)), RAW)
    assert model.cut == "boxes"
    assert [node.op_type for node in onnx.load_from_string(model.head).graph.node] == ["Identity"]
    assert "meet at 'stem' for the last time" in model.remarks[-1]
    assert "--split NODE" in model.remarks[-1]
    asked = own_model(data(two_branches(behind=5)), replace(RAW, split="stem node"))
    assert asked.cut == "stem"
    assert not any("--split" in remark for remark in asked.remarks)


def test_two_small_branches_at_the_end_are_cut_off_together() -> None:
    assert own_model(data(two_branches(behind=1)), RAW).cut == "stem"


def test_a_last_softmax_becomes_the_probabilities() -> None:
    inputs = noise_inputs(PICTURES, 4)
    model = own_model(data(classifier(softmax=True)), BIRDS)
    assert model.gives == "probabilities"
    np.testing.assert_allclose(
        scores_of(model, inputs), given(classifier(), inputs), rtol=1e-4, atol=1e-5
    )
    shares = given(classifier(softmax=True), inputs)
    np.testing.assert_allclose(scores_of(model, inputs, PROBABILITIES), shares, rtol=1e-4)


def test_versions_of_one_network_share_the_frozen_file_whatever_their_names() -> None:
    first = own_model(data(classifier(seed=5)), BIRDS)
    renamed = classifier(seed=6)
    for node in renamed.graph.node:
        node.name += "_of_another_exporter"
        node.input[:] = ["w" if name == "weights" else name for name in node.input]
    for tensor in renamed.graph.initializer:
        if tensor.name == "weights":
            numbers = numpy_helper.to_array(tensor)
            tensor.CopyFrom(
                helper.make_tensor("w", TensorProto.FLOAT, numbers.shape, numbers.ravel())
            )
    renamed.producer_name = "another"
    second = own_model(data(renamed), BIRDS)
    assert second.frozen == first.frozen
    assert second.golden == first.golden
    assert second.head != first.head


def test_equal_files_give_equal_bytes() -> None:
    one, two = (own_model(data(classifier()), BIRDS) for _ in range(2))
    assert (one.frozen, one.head, one.golden, one.golden_scores) == (
        two.frozen,
        two.head,
        two.golden,
        two.golden_scores,
    )


@pytest.mark.parametrize("name", ["map", "second"])
def test_it_is_cut_where_the_operator_says_by_value_or_node(name: str) -> None:
    inputs = noise_inputs(PICTURES, 3)
    model = own_model(data(classifier()), replace(BIRDS, split=name))
    assert (model.cut, model.feature_width) == ("map", 7 * 10 * 8)
    np.testing.assert_allclose(
        scores_of(model, inputs), given(classifier(), inputs), rtol=1e-4, atol=1e-5
    )


def test_the_output_itself_may_be_the_cut() -> None:
    model = own_model(data(classifier()), replace(BIRDS, split="logits"))
    inputs = noise_inputs(PICTURES, 3)
    np.testing.assert_allclose(scores_of(model, inputs), given(classifier(), inputs), rtol=1e-5)


def test_a_network_without_layers_of_weights_has_a_head_that_passes_on() -> None:
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["means"]),
    ]
    model = own_model(data(network((nodes, []), value("means", ["n", 3]))), BIRDS)
    assert model.cut == "means"


def test_scores_of_one_pixel_each_are_scores() -> None:
    nodes, constants = pooled()
    nodes = nodes[:3]
    nodes.append(helper.make_node("Conv", ["pool", "rows"], ["scores of one pixel"]))
    kernel = np.ones((3, 7, 1, 1), np.float32)
    constants.append(numpy_helper.from_array(kernel, "rows"))
    written = network((nodes, constants), value("scores of one pixel", ["n", 3, 1, 1]))
    assert own_model(data(written), BIRDS).cut == "pool"


def test_a_fixed_batch_is_freed() -> None:
    model = own_model(data(classifier(batch=1)), BIRDS)
    assert scores_of(model, noise_inputs(PICTURES, 5)).shape == (5, 3)


def test_a_segmenter_has_small_scores_and_large_ones() -> None:
    model = own_model(data(segmenter()), PIXELS)
    inputs = noise_inputs(PICTURES, 1)
    assert (model.cut, model.feature_width) == ("features of pixels", 4)
    np.testing.assert_allclose(scores_of(model, inputs), given(segmenter(), inputs), rtol=1e-5)
    assert scores_of(model, inputs, SMALL_SCORES).shape == (1, 3, 12, 10)
    assert safetensors.numpy.load(model.golden_scores)[SMALL_SCORES].shape == (2, 3, 12, 10)


def test_smaller_scores_of_pixels_are_enlarged() -> None:
    model = own_model(data(segmenter(enlarges=False)), PIXELS)
    inputs = noise_inputs(PICTURES, 1)
    small = scores_of(model, inputs, SMALL_SCORES)
    np.testing.assert_allclose(small, given(segmenter(enlarges=False), inputs), rtol=1e-5)
    assert scores_of(model, inputs).shape == (1, 3, 12, 10)


@pytest.mark.parametrize("batch", [1, "n"])
def test_a_raw_output_is_passed_on(batch: Any) -> None:
    model = own_model(data(boxes(batch)), RAW)
    inputs = noise_inputs(PICTURES, 1)
    assert model.output_shape == (4, 30)
    np.testing.assert_allclose(scores_of(model, inputs), given(boxes(batch), inputs), rtol=1e-5)


def test_pictures_of_the_operators_own_are_the_golden_batch() -> None:
    from fleetledger.export.noise import noise_picture

    samples = [noise_picture(7)]
    model = own_model(data(classifier()), replace(BIRDS, samples=samples))
    inputs = golden_inputs(model.golden)
    assert len(inputs) == 8
    assert not np.array_equal(inputs[0], noise_inputs(PICTURES, 1)[0])


def _around() -> ModelProto:
    """The output sees the input beside the pooled features."""
    model = classifier()
    nodes = model.graph.node
    nodes[-1].output[0] = "of features"
    nodes.extend(
        [
            helper.make_node("ReduceMean", ["image"], ["mean"], axes=[1, 2, 3], keepdims=0),
            helper.make_node("Reshape", ["mean", "column"], ["means"]),
            helper.make_node("Add", ["of features", "means"], ["logits"]),
        ]
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, 1]), "column"))
    return model


def test_an_output_that_sees_around_a_cut_is_cut_elsewhere_or_refused() -> None:
    assert own_model(data(_around()), BIRDS).cut == "logits"
    with pytest.raises(ModelFileError, match=r"split: .* by another way than 'flat'"):
        own_model(data(_around()), replace(BIRDS, split="flat"))


def _two_outputs() -> ModelProto:
    model = classifier()
    model.graph.output.append(value("flat", ["batch", 7]))
    return model


def test_one_of_several_outputs_is_chosen_by_name() -> None:
    with pytest.raises(ModelFileError, match=r"'logits', 'flat'; .* --output NAME"):
        own_model(data(_two_outputs()), BIRDS)
    assert own_model(data(_two_outputs()), replace(BIRDS, output="logits")).cut == "flat"
    with pytest.raises(ModelFileError, match="output: 'gone' is none of the model's"):
        own_model(data(_two_outputs()), replace(BIRDS, output="gone"))


def _nan() -> ModelProto:
    model = classifier()
    numbers = numpy_helper.to_array(model.graph.initializer[1]).copy()
    numbers[1, 1] = np.nan
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(numbers, "rows"))
    return model


def _infinite() -> ModelProto:
    model = classifier()
    numbers = np.full((3, 7), np.inf, np.float32)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(numbers, "rows"))
    return model


def _external() -> ModelProto:
    model = classifier()
    tensor = model.graph.initializer[1]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    tensor.ClearField("raw_data")
    return model


def _custom() -> ModelProto:
    model = classifier()
    model.graph.node[1].domain = "com.somebody"
    model.opset_import.append(helper.make_opsetid("com.somebody", 1))
    return model


def _sparse() -> ModelProto:
    model = classifier()
    values = numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    places = numpy_helper.from_array(np.zeros(1, np.int64), "places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [10**6]))
    return model


def _batch_of_four() -> ModelProto:
    """The reshape says eight numbers for each of four samples, and mixes them."""
    model = classifier(batch=4)
    model.graph.node[3].CopyFrom(helper.make_node("Reshape", ["pool", "to"], ["flat"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, 14]), "to"))
    rows = np.ones((3, 14), np.float32)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(rows, "rows"))
    return model


@pytest.mark.parametrize(
    ("model", "wanted", "words"),
    [
        (_nan(), BIRDS, "tensor 'rows' holds NaN"),
        (_infinite(), BIRDS, "NaN or infinite"),
        (_external(), BIRDS, "data in another file"),
        (_custom(), BIRDS, "domain 'com.somebody'"),
        (_sparse(), BIRDS, "sparse tensor, .*; export it dense"),
        (
            _batch_of_four(),
            BIRDS,
            "batch: fixed at 4, .* export it for one sample, or with a dynamic",
        ),
        (classifier(classes=4), BIRDS, "classes: 3 names for 4 scores"),
        (classifier(opset=9), BIRDS, ""),
        (segmenter(), BIRDS, "--answers pixels"),
        (classifier(), PIXELS, "a model of pixels gives scores"),
        (segmenter(classes=4), PIXELS, "classes: 3 names for 4 scores of a pixel"),
        (
            segmenter(),
            replace(PIXELS, class_names=BIRDS.class_names),
            "its name is 'background'",
        ),
        (classifier(), replace(BIRDS, split="nowhere"), "split: 'nowhere' is no value or node"),
        (segmenter(), replace(PIXELS, split="image"), ""),
    ],
)
def test_what_is_refused_says_field_value_and_way_out(
    model: ModelProto, wanted: OwnModelRequest, words: str
) -> None:
    if not words:
        own_model(data(model), wanted)  # it can be helped
        return
    with pytest.raises(ModelFileError, match=words):
        own_model(data(model), wanted)


def test_bytes_that_are_no_model_are_refused() -> None:
    for given_bytes in (b"", b"PK\x03\x04 an archive", data(classifier())[:200], b"\x00" * 64):
        with pytest.raises(ModelFileError):
            own_model(given_bytes, BIRDS)


def test_the_halves_are_checked_models() -> None:
    model = own_model(data(classifier()), BIRDS)
    for half in (model.frozen, model.head):
        onnx.checker.check_model(onnx.load_model_from_string(half), full_check=True)
