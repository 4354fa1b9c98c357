"""Meaning of what comes out of files: a device's answer is the file's, or the import refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from fleetledger.export.errors import ModelFileError
from fleetledger.export.noise import flat_inputs, noise_inputs
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.entropy import softmax as softmax_of
from fleetledger.schemas.models import FEATURES, PROBABILITIES, SCORES, Gives
from fleetledger.schemas.values import ClassName
from tests.export.networks import data, value
from tests.export.own_networks import PICTURES, boxes, classifier, segmenter
from tests.export.tails import (
    Ending,
    Tail,
    decomposed,
    ensemble,
    softmax,
    through_half,
    with_tail,
)


def wanted(names: int, **changes: Any) -> OwnModelRequest:
    return OwnModelRequest(
        PICTURES, tuple(ClassName(f"class-{n}") for n in range(names)), **changes
    )


PIXELS = replace(
    wanted(0),
    class_names=(ClassName("background"), ClassName("cat"), ClassName("dog")),
    answers="pixels",
)


def answers(model: CutModel, inputs: Any) -> Any:
    """Return probabilities (N, C, ...) as devices make them: a softmax over the classes."""
    features = LoadedModel(model.frozen).run({"image": inputs})[FEATURES]
    scores = LoadedModel(model.head).run({FEATURES: features})[SCORES]
    assert np.isfinite(scores).all()
    return np.moveaxis(softmax_of(np.moveaxis(scores, 1, -1)), -1, 1)


def of_file(model: ModelProto, inputs: Any) -> Any:
    """Return what plain ONNX Runtime gives for each sample alone."""
    loaded = LoadedModel(data(model))
    runs = [next(iter(loaded.run({"image": one[None]}).values())) for one in inputs]
    return np.concatenate(runs).astype(np.float64)


_STEP = 4e-3
"""Probability that eight bits round by, 1/256, where the largest number stands for 255/256."""
PROBABILITIES_OF: dict[str, Tail] = {
    "softmax": softmax,
    "softmax, squeezed": lambda end, x: end.squeezed(softmax(end, x)),
    "softmax, cast": lambda end, x: end.cast(
        end.cast(softmax(end, x), TensorProto.DOUBLE), TensorProto.FLOAT
    ),
    "softmax in half precision": through_half,
    "softmax, quantised": lambda end, x: end.quantised(softmax(end, x), 1 / 256),
    "softmax, quantised around -128": lambda end, x: end.quantised(
        softmax(end, x), 1 / 256, -128, np.int8
    ),
    "softmax, reshaped": lambda end, x: end.add(
        "Reshape", softmax(end, x), end.constant([0, -1], np.int64)
    ),
    "softmax, clipped": lambda end, x: end.add(
        "Clip", softmax(end, x), end.constant(1e-7), end.constant(1 - 1e-7)
    ),
    "softmax, clipped coarsely": lambda end, x: end.add(
        "Clip", softmax(end, x), end.constant(1e-3), end.constant(1.0)
    ),
    "softmax, identity, dropout": lambda end, x: end.add(
        "Dropout", end.add("Identity", softmax(end, x))
    ),
    "softmax, rounded": lambda end, x: end.add(
        "Div",
        end.add("Round", end.add("Mul", softmax(end, x), end.constant(1000))),
        end.constant(1000),
    ),
    "mean of two": ensemble,
    "decomposed": decomposed,
    "decomposed, squeezed": lambda end, x: end.squeezed(decomposed(end, x)),
    "decomposed by ReduceL1": lambda end, x: end.add(
        "Div",
        (e := end.add("Exp", end.add("Mul", x, end.constant(0.1)))),
        end.add("ReduceL1", e, axes=[1], keepdims=1),
    ),
    "exponential of log-softmax": lambda end, x: end.add("Exp", end.add("LogSoftmax", x, axis=1)),
    "temperature of 2": lambda end, x: softmax(end, end.add("Div", x, end.constant(2))),
    "temperature of 2, squeezed": lambda end, x: end.squeezed(
        softmax(end, end.add("Div", x, end.constant(2)))
    ),
    "in percent": lambda end, x: end.add("Mul", softmax(end, x), end.constant(100)),
    "in percent, cast": lambda end, x: end.cast(
        end.cast(end.add("Mul", softmax(end, x), end.constant(100)), TensorProto.FLOAT16),
        TensorProto.FLOAT,
    ),
    "normalised by their sum": lambda end, x: end.add(
        "Div",
        (s := end.add("Sigmoid", x)),
        end.add("ReduceSum", s, end.constant([1], np.int64), keepdims=1),
    ),
}


_ROUNDED = ("quantised", "coarsely", "rounded", "percent, cast")


@pytest.mark.parametrize("name", PROBABILITIES_OF)
@pytest.mark.parametrize(("classes", "grown"), [(5, 1.0), (5, 40.0), (200, 3.0)])
def test_probabilities_come_out_as_the_file_puts_them_out(
    name: str, classes: int, grown: float
) -> None:
    model = with_tail(PROBABILITIES_OF[name], classes, grown=grown)
    made = own_model(data(model), wanted(classes))
    inputs = noise_inputs(PICTURES, 20)
    expected = of_file(model, inputs)
    whole = 100 if expected.max() > 1.1 else 1
    atol = _STEP if any(word in name for word in _ROUNDED) else 2e-5
    assert made.gives == "probabilities"
    assert "the file gives a probability" in made.remarks[0]
    assert ("in percent" in made.remarks[0]) == (whole == 100)
    np.testing.assert_allclose(answers(made, inputs), expected / whole, atol=atol)


def test_the_heads_own_probabilities_are_those_too() -> None:
    model = with_tail(decomposed)
    made, inputs = own_model(data(model), wanted(5)), noise_inputs(PICTURES, 3)
    features = LoadedModel(made.frozen).run({"image": inputs})[FEATURES]
    shares = LoadedModel(made.head).run({FEATURES: features})[PROBABILITIES]
    np.testing.assert_allclose(shares, of_file(model, inputs), atol=1e-6)


def test_sums_that_eight_bits_spoil_are_read_before_they_are_rounded() -> None:
    """A thousand probabilities below 1/512 are all 0 in eight bits."""
    flat = with_tail(lambda end, x: end.quantised(softmax(end, x), 1 / 256), 1000, grown=1e-3)
    made, inputs = own_model(data(flat), wanted(1000)), noise_inputs(PICTURES, 4)
    assert of_file(flat, inputs).max() == 0
    exact = of_file(with_tail(softmax, 1000, grown=1e-3), inputs)
    np.testing.assert_allclose(answers(made, inputs), exact, atol=1e-6)
    assert "before the file rounds or clips" in made.remarks[0]


SCORES_OF: dict[str, Tail] = {
    "as they are": lambda end, x: end.add("Identity", x),
    "squeezed": lambda end, x: end.squeezed(x),
    "quantised": lambda end, x: end.quantised(x, 0.05, 128),
    "log-softmax": lambda end, x: end.add("LogSoftmax", x, axis=1),
}


@pytest.mark.parametrize("tail", SCORES_OF.values(), ids=SCORES_OF)
def test_scores_get_one_softmax(tail: Tail) -> None:
    model = with_tail(tail, grown=3)
    made, inputs = own_model(data(model), wanted(5)), noise_inputs(PICTURES, 20)
    assert made.gives == "scores"
    assert made.remarks[0].startswith("the file gives a score of each class")
    np.testing.assert_allclose(answers(made, inputs), softmax_of(of_file(model, inputs)), atol=1e-5)


def sigmoids(end: Ending, name: str) -> str:
    return end.add("Sigmoid", name)


def decomposed_sigmoids(end: Ending, name: str) -> str:
    one = end.constant(1)
    return end.add("Div", one, end.add("Add", end.add("Exp", end.add("Neg", name)), one))


WRONG: dict[str, tuple[Tail, str]] = {
    "sigmoids of several labels": (sigmoids, "output: sigmoids, .* --gives probabilities"),
    "sigmoids, squeezed": (lambda e, x: e.squeezed(sigmoids(e, x)), "output: sigmoids"),
    "decomposed sigmoids": (decomposed_sigmoids, "no probabilities of one class each"),
    "two softmaxes side by side": (
        lambda e, x: e.add("Concat", softmax(e, x), softmax(e, x), axis=1),
        "no probabilities of one class each",
    ),
    "softmax over one number": (
        lambda e, x: e.add("Softmax", e.add("Unsqueeze", x, e.constant([2], np.int64)), axis=2),
        "every number is 1 for every picture",
    ),
    "softmax over the batch": (
        lambda e, x: e.add("Softmax", x, axis=0),
        "a softmax over the classes, not over the batch",
    ),
    "scaled by the largest": (
        lambda e, x: e.add(
            "Div", (s := softmax(e, x)), e.add("ReduceMax", s, axes=[1], keepdims=1)
        ),
        "no probabilities of one class each",
    ),
}


@pytest.mark.parametrize(("tail", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_distribution_over_the_classes_is_refused(tail: Tail, words: str) -> None:
    doubled = words.startswith("no") and "Concat" in str(with_tail(tail).graph.node[-1].op_type)
    shape = ["batch", 10] if doubled else None
    model = with_tail(tail, shape=shape)
    with pytest.raises(ModelFileError, match=words):
        own_model(data(model), wanted(10 if doubled else 5))


def test_the_operators_word_is_the_way_out_of_sigmoids() -> None:
    model, inputs = with_tail(sigmoids), noise_inputs(PICTURES, 20)
    made = own_model(data(model), wanted(5, gives="probabilities"))
    expected = of_file(model, inputs)
    np.testing.assert_allclose(
        answers(made, inputs), expected / expected.sum(axis=1, keepdims=True), atol=1e-5
    )
    assert own_model(data(model), wanted(0, answers="raw")).gives is None


def test_scores_from_0_to_1_are_taken_by_the_operators_word() -> None:
    model = with_tail(decomposed_sigmoids)
    made = own_model(data(model), wanted(5, gives="scores"))
    assert made.gives == "scores"
    with pytest.raises(ModelFileError, match="say --gives scores"):
        own_model(data(classifier(5)), wanted(5, gives="probabilities"))


@pytest.mark.parametrize(
    ("tail", "gives", "is_share"),
    [
        (lambda e, x: e.add("Mul", x, e.constant(3)), None, False),
        (sigmoids, None, True),
        (lambda e, x: e.squeezed(sigmoids(e, x)), None, True),
        (decomposed_sigmoids, "probabilities", True),
    ],
    ids=["margin", "sigmoid", "sigmoid, squeezed", "decomposed sigmoid"],
)
def test_one_number_for_two_names_is_a_sigmoid(
    tail: Tail, gives: Gives | None, is_share: bool
) -> None:
    model = with_tail(tail, 1, seed=1)
    made, inputs = own_model(data(model), wanted(2, gives=gives)), noise_inputs(PICTURES, 20)
    given = of_file(model, inputs)[:, :1].reshape(20)
    second = given if is_share else 1 / (1 + np.exp(-given))
    np.testing.assert_allclose(answers(made, inputs)[:, 1], second, atol=1e-5)
    assert "of one of two classes" in made.remarks[0]


def test_one_number_is_refused_where_it_says_nothing() -> None:
    with pytest.raises(ModelFileError, match=r"alone is always 100 % sure\. Give two names"):
        own_model(data(classifier(1)), wanted(1))
    with pytest.raises(ModelFileError, match="--gives probabilities if it is the probability of"):
        own_model(data(with_tail(decomposed_sigmoids, 1)), wanted(2))


def over_pixels(tail: Tail, *, enlarges: bool, classes: int = 3) -> ModelProto:
    model, end = segmenter(classes, enlarges=enlarges), Ending()
    shape = [axis.dim_value for axis in model.graph.output[0].type.tensor_type.shape.dim]
    output = tail(end, model.graph.output[0].name)
    model.graph.node.extend(end.nodes)
    model.graph.initializer.extend(end.constants)
    model.graph.output[0].CopyFrom(value(output, ["n", *shape[1:]]))
    return model


@pytest.mark.parametrize("enlarges", [True, False])
@pytest.mark.parametrize(
    "tail",
    [
        softmax,
        decomposed,
        lambda e, x: e.cast(e.cast(softmax(e, x), TensorProto.FLOAT16), TensorProto.FLOAT),
        lambda e, x: e.quantised(softmax(e, x), 1 / 256),
    ],
    ids=["softmax", "decomposed", "cast", "quantised"],
)
def test_probabilities_of_pixels_come_out_as_they_are(tail: Tail, enlarges: bool) -> None:
    model = over_pixels(tail, enlarges=enlarges)
    made, inputs = own_model(data(model), PIXELS), noise_inputs(PICTURES, 3)
    assert made.gives == "probabilities"
    found, expected = answers(made, inputs), of_file(model, inputs)
    if not enlarges:
        # Between the small scores those of pixels are interpolated.
        assert found.shape == (3, 3, 12, 10)
        return
    np.testing.assert_allclose(found, expected, atol=3e-3)


def test_pixels_with_the_background_alone_are_refused_and_two_names_are_a_sigmoid() -> None:
    model = over_pixels(lambda e, x: e.add("Sigmoid", x), enlarges=True, classes=1)
    alone = replace(PIXELS, class_names=PIXELS.class_names[:1])
    with pytest.raises(ModelFileError, match="such as 'background' and 'object'"):
        own_model(data(model), alone)
    made = own_model(data(model), replace(PIXELS, class_names=PIXELS.class_names[:2]))
    inputs = noise_inputs(PICTURES, 3)
    np.testing.assert_allclose(answers(made, inputs)[:, 1:], of_file(model, inputs), atol=1e-5)


def test_a_softmax_over_columns_of_pixels_is_refused() -> None:
    model = over_pixels(lambda e, x: e.add("Softmax", x, axis=3), enlarges=True)
    with pytest.raises(ModelFileError, match="sum to 1 along axis 3, and classes lie along axis 1"):
        own_model(data(model), PIXELS)


def standardised() -> ModelProto:
    """Divides each picture by its own deviation, which is 0 where it is of one colour."""
    model = classifier(5)
    for node in model.graph.node:
        node.input[:] = ["standard" if name == "image" else name for name in node.input]
    end = Ending()
    mean = end.add("ReduceMean", "image", axes=[2, 3], keepdims=1)
    beside = end.add("Sub", "image", mean)
    square = end.add("ReduceMean", end.add("Mul", beside, beside), axes=[2, 3], keepdims=1)
    end.nodes.append(helper.make_node("Div", [beside, end.add("Sqrt", square)], ["standard"]))
    nodes = [*end.nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_pictures_of_one_colour_without_an_answer_are_told() -> None:
    model = standardised()
    made = own_model(data(model), wanted(5))
    (told,) = made.remarks[1:]
    assert told.startswith("NaN or infinity for a picture that is all black")
    assert len(own_model(data(classifier(5)), wanted(5)).remarks) == 1
    flat = flat_inputs(PICTURES)
    assert set(flat) == {"black", "grey", "white"}
    assert np.isnan(of_file(model, [flat["black"]])).any()


@pytest.mark.parametrize(
    ("divide_by", "mean", "deviation", "told"),
    [
        (255, 123.7, 58.4, "Say divide_by = 1"),
        (255, 0.0, 255.0, "Say divide_by = 1"),
        (1, 0.485, 0.229, "Say divide_by = 255"),
        (1, 0.5, 1.0, "Say divide_by = 255"),
        (1, 123.7, 58.4, ""),
        (1, 0.0, 1.0, ""),
        (1, 127.5, 127.5, ""),
        (1, 0.0, 255.0, ""),
        (255, 0.485, 0.229, ""),
        (255, 0.0, 1.0, ""),
    ],
)
def test_means_in_another_unit_are_told(
    divide_by: Any, mean: float, deviation: float, told: str
) -> None:
    pictures = PICTURES.model_copy(
        update={"divide_by": divide_by, "mean": (mean,) * 3, "deviation": (deviation,) * 3}
    )
    made = own_model(data(classifier()), replace(wanted(3), preprocessing=pictures, gives="scores"))
    assert len(made.remarks) == (2 if told else 1)
    assert told in made.remarks[-1]


def test_a_raw_output_is_read_by_nobody() -> None:
    made = own_model(data(boxes()), wanted(0, answers="raw"))
    assert made.remarks == ("the file's numbers are passed on as they are",)
