"""Kinds of files that come in as they are: each is installed on a device, and answers as it came.

Each network is small, written here as some tool writes it; `test_files_of_other_tools` has files
of the tools themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fleetledger.device_agent.core.inputs import ModelInstalled
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import (
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.export.errors import ModelFileError
from fleetledger.export.noise import noise_inputs
from fleetledger.export.own_model import OwnModelRequest, own_model
from fleetledger.learning.numerics.entropy import softmax
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.schemas.values import ClassName
from tests.device_agent import model_files as models
from tests.device_agent.models.test_own_models_run import described
from tests.export.networks import value
from tests.export.own_networks import PICTURES

CLASSES = 4
NAMES = tuple(ClassName(f"class-{number}") for number in range(CLASSES))
SAMPLE = OwnModelRequest(PICTURES, NAMES)
RAW = OwnModelRequest(PICTURES, (), answers="raw")
PIXELS = OwnModelRequest(PICTURES, (ClassName("background"), *NAMES[1:]), answers="pixels")
IDS = TextPreprocessing(
    mode="text", tokens="ids", vocabulary=9, length=6, pad_side="right", input_name="input_ids"
)
TEXT = OwnModelRequest(IDS, NAMES)


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) / 2


def written(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, Any],
    output: Any,
    inputs: Sequence[Any] = (value("image", ["N", 3, 12, 10]),),
    opsets: Mapping[str, int] | None = None,
) -> ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(list(nodes), "main", list(inputs), [output], tensors)
    imports = [helper.make_opsetid(*entry) for entry in (opsets or {"": 17}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def node(operator: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), output.split(), **attributes)


def classifier(
    ends: Sequence[NodeProto],
    constants: Mapping[str, Any],
    output: Any,
    batch: Any = "N",
    source: str = "image",
) -> ModelProto:
    """Pictures to `logits` (N, 4), and what comes behind them."""
    nodes = [
        node("Conv", f"{source} w", "c"),
        node("GlobalAveragePool", "c", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f rows", "logits"),
        *ends,
    ]
    given = {"w": drawn(8, 3, 3, 3), "rows": drawn(8, CLASSES), **constants}
    return written(nodes, given, output, [value("image", [batch, 3, 12, 10])])


def on_a_device(model: ModelProto, wanted: OwnModelRequest, folder: Path) -> InstalledModel:
    blobs = BlobFolder(folder / "blobs")
    host = ModelHost(blobs, SessionSettings(domains=wanted.domains - {""}))
    samples = list(noise_inputs(wanted.preprocessing, 2))
    installer = Installer(blobs, ModelSlots(folder / "slots"), host, lambda _: samples)
    made = described(own_model(model.SerializeToString(), wanted), wanted, 1)
    event = installer.install(models.store_model(blobs, made))
    assert isinstance(event, ModelInstalled), event
    active = installer.active()
    assert active is not None
    return active


def session(model: ModelProto) -> Any:
    data = model.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def require_scores(
    model: ModelProto, wanted: OwnModelRequest, folder: Path, plain: Any, inputs: Any
) -> None:
    """Compare probabilities of whole samples; `plain` are a file's own scores (N, C)."""
    found = softmax(on_a_device(model, wanted, folder).predict(inputs))
    np.testing.assert_allclose(found, softmax(plain.astype(np.float64)), atol=1e-5)


def test_a_raw_output_may_be_longer_than_features_are(tmp_path: Path) -> None:
    """The case of old: `split: ... M at most 131072`, of a file that was not split by anybody."""
    channels = 1200
    nodes = [node("Conv", "image w", "map"), node("Flatten", "map", "row"), node("Sin", "row", "o")]
    model = written(nodes, {"w": drawn(channels, 3, 1, 1)}, value("o", ["N", channels * 120]))
    (sample,) = noise_inputs(PICTURES, 1)
    for name, split in (("found", None), ("cut", "row")):
        device = on_a_device(model, replace(RAW, split=split), tmp_path / name)
        (expected,) = session(model).run(None, {"image": sample[None]})
        np.testing.assert_allclose(device.raw_output(sample), expected[0], atol=1e-6)


@pytest.mark.parametrize(
    ("ends", "constants", "rank", "shape"),
    [
        ([node("Gather", "logits k", "o", axis=1)], {"k": np.array(1)}, 1, (1,)),
        ([node("ReduceSum", "logits", "o", keepdims=0)], {}, 0, (1,)),
        ([node("Gather", "logits k", "o", axis=0)], {"k": np.array(0)}, 1, (4,)),
        ([node("Reshape", "logits k", "o")], {"k": np.array([4, 1])}, 2, (4, 1)),
        ([node("ArgMax", "logits", "o", axis=1, keepdims=0)], {}, 1, (1,)),
        ([node("Cast", "logits", "o", to=TensorProto.DOUBLE)], {}, 2, (4,)),
    ],
    ids=["one number", "a sum", "no axis of samples", "another axis first", "numbers", "float64"],
)
def test_raw_outputs_without_an_axis_of_samples_or_of_another_type(
    ends: list[NodeProto],
    constants: dict[str, Any],
    rank: int,
    shape: tuple[int, ...],
    tmp_path: Path,
) -> None:
    elements = {"ArgMax": TensorProto.INT64, "Cast": TensorProto.DOUBLE}
    axes = [f"axis {number}" for number in range(rank)]
    output = value("o", axes, elements.get(ends[0].op_type, TensorProto.FLOAT))
    model = classifier(ends, constants, output, batch=1)
    device = on_a_device(model, RAW, tmp_path)
    for sample in noise_inputs(PICTURES, 3):
        (expected,) = session(model).run(None, {"image": sample[None]})
        np.testing.assert_allclose(device.raw_output(sample), expected.reshape(shape), atol=1e-5)


def test_a_squeezed_score_of_two_classes(tmp_path: Path) -> None:
    """As torch's `squeeze()` writes it: of one sample it leaves no axis at all."""
    ends = [node("Gather", "logits k", "one", axis=1), node("Squeeze", "one", "o")]
    model = classifier(ends, {"k": np.array([2])}, value("o", []))
    two = replace(SAMPLE, class_names=NAMES[:2])
    inputs = noise_inputs(PICTURES, 3)
    score = np.array([session(model).run(None, {"image": one[None]})[0] for one in inputs])
    plain = np.stack([np.zeros_like(score), score], axis=1)
    require_scores(model, two, tmp_path, plain, inputs)


def test_a_network_without_an_axis_of_samples(tmp_path: Path) -> None:
    ends = [node("Reshape", "logits k", "o")]
    model = classifier(ends, {"k": np.array([4])}, value("o", [4]), source="batched")
    model.graph.node.insert(0, node("Reshape", "image b", "batched"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 3, 12, 10]), "b"))
    del model.graph.input[:]
    model.graph.input.append(value("image", [3, 12, 10]))
    inputs = noise_inputs(PICTURES, 3)
    plain = np.stack([session(model).run(None, {"image": one})[0] for one in inputs])
    require_scores(model, SAMPLE, tmp_path, plain, inputs)


def test_a_batch_of_eight_that_cannot_be_freed_is_told(tmp_path: Path) -> None:
    ends = [node("Add", "logits k", "o")]
    model = classifier(ends, {"k": drawn(8, 4)}, value("o", [8, 4]), batch=8)
    inputs = noise_inputs(PICTURES, 3)
    plain = np.stack(
        [session(model).run(None, {"image": one[None].repeat(8, 0)})[0][0] for one in inputs]
    )
    require_scores(model, SAMPLE, tmp_path, plain, inputs)
    assert "each sample 8 times" in own_model(model.SerializeToString(), SAMPLE).remarks[1]


@pytest.mark.parametrize("wanted", [SAMPLE, PIXELS])
def test_class_numbers_name_the_scores_that_they_are_made_of(
    wanted: OwnModelRequest, tmp_path: Path
) -> None:
    """`--output` takes a value inside, so nobody has to export the file again."""
    if wanted is SAMPLE:
        ends = [node("Softmax", "logits", "s"), node("ArgMax", "s", "o", axis=1, keepdims=0)]
        model = classifier(ends, {}, value("o", ["N"], TensorProto.INT64))
    else:
        nodes = [node("Conv", "image w", "s"), node("ArgMax", "s", "o", axis=1, keepdims=0)]
        output = value("o", ["N", 12, 10], TensorProto.INT64)
        model = written(nodes, {"w": drawn(4, 3, 1, 1)}, output)
    with pytest.raises(ModelFileError, match=r"'o' is int64, .*; say --output s$"):
        own_model(model.SerializeToString(), wanted)
    device = on_a_device(model, replace(wanted, output="s"), tmp_path)
    (sample,) = noise_inputs(PICTURES, 1)
    (numbers,) = session(model).run(None, {"image": sample[None]})
    found = device.predict(sample[None]) if wanted is SAMPLE else device.pixel_scores(sample).large
    assert np.array_equal(found.argmax(1 if wanted is SAMPLE else 0).ravel(), numbers.ravel())


def test_an_output_that_is_nowhere_is_refused_with_the_names() -> None:
    model = classifier([], {}, value("logits", ["N", 4]))
    with pytest.raises(ModelFileError, match="'gone' is none of the model's, which are 'logits'"):
        own_model(model.SerializeToString(), replace(SAMPLE, output="gone"))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("classes", [1, 2, CLASSES])
def test_pixels_with_classes_behind_their_places(layout: str, classes: int, tmp_path: Path) -> None:
    """As Keras has them; of two classes also one number, and that without an axis."""
    changes = {"size": (12, 12), "layout": layout}
    spec = Preprocessing.model_validate({**PICTURES.model_dump(), **changes})
    wanted = replace(PIXELS, preprocessing=spec, class_names=PIXELS.class_names[: max(classes, 2)])
    first = [] if layout == "NCHW" else [node("Transpose", "image", "x", perm=[0, 3, 1, 2])]
    nodes = [
        *first,
        node("Conv", f"{'image' if layout == 'NCHW' else 'x'} w", "planes"),
        node("Transpose", "planes", "o", perm=[0, 2, 3, 1]),
    ]
    axes: list[Any] = ["N", 12, 12, classes]
    constants = {"w": drawn(classes, 3, 1, 1)}
    if classes == 1:
        nodes[-1].output[0] = "last"
        nodes.append(node("Reshape", "last k", "o"))
        constants["k"] = np.array([-1, 12, 12])
        axes = axes[:3]
    model = written(nodes, constants, value("o", axes), [value("image", ["N", *spec.shape])])
    (sample,) = noise_inputs(spec, 1)
    (plain,) = session(model).run(None, {"image": sample[None]})
    found = on_a_device(model, wanted, tmp_path).pixel_scores(sample).large
    if classes == 1:
        np.testing.assert_allclose(found[1] - found[0], plain[0], atol=1e-5)
    else:
        np.testing.assert_allclose(found, np.moveaxis(plain[0], -1, 0), atol=1e-5)


@pytest.mark.parametrize("element", [TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL])
def test_an_attention_mask_and_token_types_are_made_of_the_ids(
    element: int, tmp_path: Path
) -> None:
    nodes = [
        node("Gather", "table input_ids", "words"),
        node("Cast", "attention_mask", "m", to=TensorProto.FLOAT),
        node("Cast", "token_type_ids", "t", to=TensorProto.FLOAT),
        node("Add", "m t", "counts"),
        node("Unsqueeze", "counts axis", "column"),
        node("Mul", "words column", "kept"),
        node("ReduceSum", "kept one", "sum", keepdims=0),
        node("MatMul", "sum rows", "o"),
    ]
    constants = {"table": drawn(9, 5), "axis": np.array([2]), "one": np.array([1])}
    constants["rows"] = drawn(5, CLASSES)
    inputs = [
        value("input_ids", ["N", 6], TensorProto.INT64),
        value("attention_mask", ["N", 6], element),
        value("token_type_ids", ["N", 6], TensorProto.INT64),
    ]
    model = written(nodes, constants, value("o", ["N", CLASSES]), inputs)
    other = replace(TEXT, preprocessing=IDS.model_copy(update={"input_name": "ids"}))
    with pytest.raises(ModelFileError, match='set input_name = "input_ids"'):
        own_model(model.SerializeToString(), other)
    ids = noise_inputs(IDS, 4)
    ids[1, 3:] = 0
    mask = (ids != 0).astype(helper.tensor_dtype_to_np_dtype(element))
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
    (plain,) = session(model).run(None, feeds)
    require_scores(model, TEXT, tmp_path, plain, ids)


def test_token_ids_may_be_floats_as_keras_has_them(tmp_path: Path) -> None:
    nodes = [
        node("Cast", "input_ids", "ids", to=TensorProto.INT32),
        node("Gather", "table ids", "words"),
        node("ReduceMean", "words", "mean", axes=[1], keepdims=0),
        node("MatMul", "mean rows", "o"),
    ]
    constants = {"table": drawn(9, 5), "rows": drawn(5, CLASSES)}
    inputs = [value("input_ids", ["N", 6])]
    model = written(nodes, constants, value("o", ["N", CLASSES]), inputs)
    ids = noise_inputs(IDS, 4)
    (plain,) = session(model).run(None, {"input_ids": ids.astype(np.float32)})
    require_scores(model, TEXT, tmp_path, plain, ids)


def test_trees_without_an_import_of_standard_operators(tmp_path: Path) -> None:
    """As onnxmltools writes XGBoost's: rows of numbers, and `ai.onnx.ml` alone."""
    leaves = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [7, 0, 0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"],
        "nodes_values": [0.1, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [-2.0, 3.0],
    }
    tree = node("TreeEnsembleRegressor", "image", "o", domain="ai.onnx.ml", n_targets=1, **leaves)
    rows = [value("image", ["N", 360])]
    model = written([tree], {}, value("o", ["N", 1]), rows, opsets={"ai.onnx.ml": 1})
    wanted = replace(RAW, domains=frozenset({"", "ai.onnx.ml"}))
    device = on_a_device(model, wanted, tmp_path)
    for sample in noise_inputs(PICTURES, 6):
        (expected,) = session(model).run(None, {"image": sample.reshape(1, -1)})
        assert device.raw_output(sample) == expected[0]


def test_erfc_is_written_by_erf(tmp_path: Path) -> None:
    """tf2onnx writes an exact GELU by `Erfc`, which no opset has and no runtime takes."""
    ends = [node("Erfc", "logits", "o", name="gelu")]
    model = classifier(ends, {}, value("o", ["N", CLASSES]))
    before = classifier([], {}, value("logits", ["N", CLASSES]))
    inputs = noise_inputs(PICTURES, 3)
    (logits,) = session(before).run(None, {"image": inputs})
    plain = np.vectorize(math.erfc)(logits)
    wanted = replace(SAMPLE, gives="scores")
    require_scores(model, wanted, tmp_path, plain, inputs)


def test_a_second_input_that_is_no_mask_leads_to_a_constant() -> None:
    """The way that docs/push-models.md shows is gone."""
    ends = [node("Add", "logits extra", "o")]
    model = classifier(ends, {}, value("o", ["N", CLASSES]))
    model.graph.input.append(value("extra", [1, CLASSES]))
    with pytest.raises(ModelFileError, match="or make constants of the others"):
        own_model(model.SerializeToString(), SAMPLE)
    (extra,) = (given for given in model.graph.input if given.name == "extra")
    model.graph.input.remove(extra)
    model.graph.initializer.append(numpy_helper.from_array(drawn(1, CLASSES), "extra"))
    own_model(model.SerializeToString(), SAMPLE)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (
            node("RMSNormalization", "logits scale", "o"),
            "operator 'RMSNormalization' came later; export it again with opset_version=20",
        ),
        (node("Swish", "logits", "o"), "operator 'Swish' came later; .* opset_version=20"),
    ],
)
def test_operators_of_later_opsets_are_named(operator: NodeProto, words: str) -> None:
    model = classifier([operator], {"scale": drawn(CLASSES)}, value("o", ["N", CLASSES]))
    model.opset_import[0].version = 24
    with pytest.raises(ModelFileError, match=words):
        own_model(model.SerializeToString(), SAMPLE)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (TensorProto.DOUBLE, r"in float32 \(`network\.float\(\)` before"),
        (TensorProto.BFLOAT16, r"in float32: `network\.float\(\)` before"),
    ],
)
def test_types_that_the_runtime_lacks_say_float32(element: int, words: str) -> None:
    nodes = [
        node("Cast", "image", "x", to=element),
        node("Cast", "w", "v", to=element),
        node("Conv", "x v", "c"),
        node("Cast", "c", "y", to=TensorProto.FLOAT),
        node("GlobalAveragePool", "y", "p"),
        node("Flatten", "p", "o"),
    ]
    model = written(nodes, {"w": drawn(4, 3, 3, 3)}, value("o", ["N", CLASSES]))
    with pytest.raises(ModelFileError, match=words):
        own_model(model.SerializeToString(), SAMPLE)
