"""What other makers' tools write is answered on a device as by plain ONNX Runtime, or refused.

What is refused comes in when the words of the refusal are followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.export.errors import ModelFileError
from fleetledger.export.model_file import read_model_file
from fleetledger.export.noise import noise_inputs
from fleetledger.export.own_model import OwnModelRequest, own_model
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead, uncertainty
from fleetledger.learning.numerics.entropy import relative_entropy, softmax
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName
from tests.device_agent import model_files as models
from tests.device_agent.models.test_own_models_run import described
from tests.export import makers
from tests.export.makers import CLASSES, MAKERS
from tests.export.own_networks import PICTURES
from tests.export.tails import Tail
from tests.export.tails import softmax as softmax_tail

NAMES = tuple(ClassName(f"class-{number}") for number in range(CLASSES))
CONTRIB = frozenset({"", "com.microsoft", "ai.onnx.ml"})
WANTED = OwnModelRequest(PICTURES, NAMES, domains=CONTRIB)
INPUTS = 12


def plain(model: ModelProto, inputs: Any, output: str | None = None) -> Any:
    """Return probabilities by plain ONNX Runtime: of scores their softmax, of others themselves."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    kinds = {"tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
    inputs = inputs.astype(kinds.get(session.get_inputs()[0].type, np.float32))
    names = None if output is None else [output]
    given = np.stack([session.run(names, {"image": one[None]})[0].ravel() for one in inputs])
    sums = given.sum(axis=1)
    if given.min() >= 0 and np.abs(sums - 1).max() < 0.05:
        return given / sums[:, None]
    return softmax(given)


def on_a_device(model: ModelProto, wanted: OwnModelRequest, folder: Path) -> tuple[Any, Any, Any]:
    """Return inputs, and the probabilities and doubts that a device tells of them."""
    made = described(own_model(model.SerializeToString(), wanted), wanted, 1)
    blobs = BlobFolder(folder)
    models.store_model(blobs, made)
    host = ModelHost(blobs, SessionSettings(domains=wanted.domains - {""}))
    installed = host.model(made.manifest)
    inputs = noise_inputs(wanted.preprocessing, INPUTS)
    scores = installed.predict(inputs)
    head = ScoringHead(installed.manifest.class_names, installed.manifest.logit_scale)
    doubts = uncertainty(scores, head, None, DetectionRules())
    return inputs, softmax(scores, installed.manifest.logit_scale), doubts


def require_equal(
    model: ModelProto, folder: Path, wanted: OwnModelRequest = WANTED, output: str | None = None
) -> None:
    inputs, shares, doubts = on_a_device(model, wanted, folder)
    expected = plain(model, inputs, output)
    atol = 5e-3 if "quantised" in model.graph.name or _is_rounded(model) else 1e-4
    if model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16:
        atol = 1e-3  # half precision has three digits
    np.testing.assert_allclose(shares, expected, atol=atol)
    np.testing.assert_allclose(doubts, relative_entropy(expected), atol=4 * atol)


def _is_rounded(model: ModelProto) -> bool:
    """Whether the last thing that is done to probabilities is to put them into eight bits."""
    return model.graph.node[-1].op_type == "DequantizeLinear"


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_device_answers_as_plain_onnx_runtime(
    make: Callable[[], ModelProto], tmp_path: Path
) -> None:
    model = make()
    wanted = WANTED
    if model.graph.input[0].type.tensor_type.shape.dim[3].dim_value == 3:
        nhwc = PICTURES.model_copy(update={"layout": "NHWC"})
        wanted = replace(WANTED, preprocessing=nhwc)
    require_equal(model, tmp_path, wanted)


def refused(model: ModelProto | bytes, words: str, wanted: OwnModelRequest = WANTED) -> None:
    data = model if isinstance(model, bytes) else model.SerializeToString()
    with pytest.raises(ModelFileError, match=words):
        own_model(data, wanted)


def test_maps_of_scikit_learn_are_refused_step_by_step(tmp_path: Path) -> None:
    refused(makers.skl2onnx(zipmap=True), "zipmap': False")
    plain_one = makers.skl2onnx(zipmap=False)
    standard = replace(WANTED, domains=frozenset({""}))
    refused(plain_one, r"domain 'ai\.onnx\.ml'; .* --domain", standard)
    refused(plain_one, "'output_label', 'probabilities'; .* --output NAME")
    chosen = replace(WANTED, output="probabilities")
    require_equal(plain_one, tmp_path, chosen, "probabilities")


@pytest.mark.parametrize("keep_io", [True, False])
def test_half_precision_inside_and_at_both_ends(keep_io: bool, tmp_path: Path) -> None:
    require_equal(makers.halved(keep_io=keep_io), tmp_path)


@pytest.mark.parametrize("tail", [None, softmax_tail])
def test_ranges_of_a_batch_are_those_of_a_sample(tail: Tail | None, tmp_path: Path) -> None:
    """`quantize_dynamic` scales all of a batch at once, and a device runs sample by sample."""
    require_equal(makers.quantised("dynamic", tail), tmp_path)


def test_a_batch_that_is_part_of_the_arithmetic_is_run_one_by_one(tmp_path: Path) -> None:
    for number, model in enumerate(makers.of_one_sample()):
        require_equal(model, tmp_path / str(number))
        (told,) = own_model(model.SerializeToString(), WANTED).remarks[1:]
        assert "devices run its samples one by one" in told


def test_one_of_two_outputs_is_said(tmp_path: Path) -> None:
    refused(makers.two_outputs(), "--output NAME")
    for output in ("logits", "shares"):
        chosen = replace(WANTED, output=output)
        require_equal(makers.two_outputs(), tmp_path / output, chosen, output)


def test_class_numbers_are_refused_and_the_scores_beside_them_taken(tmp_path: Path) -> None:
    model = makers.of_class_numbers()
    words = "'class' is int64, such as class numbers or labels, .*; say --output logits"
    refused(model, words, replace(WANTED, output="class"))
    require_equal(model, tmp_path, replace(WANTED, output="logits"), "logits")


def test_a_sequence_is_refused_and_its_tensor_taken(tmp_path: Path) -> None:
    model = makers.in_a_sequence(as_tensor=False)
    refused(model, "'list' is a sequence of tensors, and float32 is expected; say --output logits$")
    shares = on_a_device(model, replace(WANTED, output="logits"), tmp_path)[1]
    as_tensor = on_a_device(makers.in_a_sequence(as_tensor=True), WANTED, tmp_path)[1]
    assert np.array_equal(shares, as_tensor)


def test_local_functions_are_put_where_they_are_called(tmp_path: Path) -> None:
    require_equal(makers.with_function(), tmp_path)


def test_weights_in_a_file_beside_are_read_with_it_and_refused_without(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        makers.torch_dynamo(), path, save_as_external_data=True, location="w", size_threshold=0
    )
    refused(path.read_bytes(), r"data in another file; .* onnx\.save\(onnx\.load\(FILE\), ONE_FI")
    require_equal(onnx.load_model_from_string(read_model_file(path)), tmp_path / "beside")
    onnx.save(onnx.load(path), tmp_path / "one.onnx")
    require_equal(onnx.load(tmp_path / "one.onnx"), tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_levels_of_eight_bits_as_input(dtype: str, tmp_path: Path) -> None:
    model = makers.torch_legacy()
    model.graph.node.insert(0, helper.make_node("Cast", ["image"], ["floats"], to=1))
    model.graph.node[1].input[0] = "floats"
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    words = r"'uint8' are levels .*; set divide_by = 1, mean = \[0\.0, 0\.0, 0\.0\] and deviation"
    refused(model, words)
    levels = {"divide_by": 1, "mean": (0.0,) * 3, "deviation": (1.0,) * 3, "dtype": dtype}
    require_equal(model, tmp_path, replace(WANTED, preprocessing=changed(levels)))
    halves = changed({"dtype": "float16"})
    refused(
        model, "dtype: 'float16', but .* is UINT8; leave", replace(WANTED, preprocessing=halves)
    )


def changed(settings: dict[str, Any]) -> Preprocessing:
    return Preprocessing.model_validate({**PICTURES.model_dump(), **settings})


def test_other_orders_and_sizes_of_pictures_are_answered_alike_in_import_and_on_devices(
    tmp_path: Path,
) -> None:
    settings = {"mode": "BGR", "resize": "letterbox", "interpolation": "opencv_bilinear", "pad": 0}
    wanted = replace(WANTED, preprocessing=changed(settings))
    require_equal(makers.torch_legacy(), tmp_path, wanted)


def test_boxes_are_raw_numbers_and_suppressed_ones_are_refused() -> None:
    raw = OwnModelRequest(PICTURES, (), answers="raw")
    assert own_model(makers.detector(suppresses=False).SerializeToString(), raw).output_shape == (
        5,
        6,
    )
    refused(makers.detector(suppresses=True), "'NonMaxSuppression' gives as many rows", raw)


def test_another_name_of_the_input_is_told(tmp_path: Path) -> None:
    model = makers.torch_legacy()
    model.graph.node[0].input[0] = model.graph.input[0].name = "x"
    refused(model, r"input_name: the preprocessing says 'image', the model's inputs are \['x'\]")
    named = PICTURES.model_copy(update={"input_name": "x"})
    own_model(model.SerializeToString(), replace(WANTED, preprocessing=named))


def test_there_are_enough_of_them() -> None:
    others = [name for name in globals() if name.startswith("test_")]
    assert len(MAKERS) + len(others) >= 30
    assert math.isclose(plain(MAKERS["MATLAB"](), noise_inputs(PICTURES, 1)).sum(), 1, rel_tol=1e-6)
