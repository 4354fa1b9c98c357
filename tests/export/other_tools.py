"""Files as other makers' own tools wrote them, and what an operator says of each to have it taken.

`files_of_other_tools.zip` holds them as they came, but for stack traces in metadata: networks with
random weights for pictures of 16 x 16 pixels, five classes (`bin`: two), by tf2onnx 1.17
(TensorFlow 2.21), Keras 3.15 `export`, tf2onnx of TFLite files, paddle2onnx 2.1 (Paddle 3.3),
skl2onnx 1.20 and onnxmltools 1.16 (rows of numbers; LightGBM 4.7, XGBoost 3.2), torch 2.13
(`legacy`, `dynamo`), and, of some of these, ONNX Runtime 1.32's quantiser and optimiser,
onnxconverter-common 1.16, onnxslim 0.1, onnxsim 0.8 and onnxoptimizer 0.4. `local_functions` is by
hand.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper

from fleetledger.export.errors import ExportError
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.learning.numerics.entropy import softmax
from fleetledger.schemas.models import Gives, Preprocessing
from fleetledger.schemas.values import ClassName

FILES = zipfile.ZipFile(Path(__file__).parent / "files_of_other_tools.zip")
NAMES = sorted(name.removesuffix(".onnx") for name in FILES.namelist())
PICTURES = Preprocessing(
    mode="RGB",
    size=(16, 16),
    mean=(0.5, 0.4, 0.3),
    deviation=(0.2, 0.3, 0.4),
    input_name="image",
)
MOST_STEPS = 5


@dataclass(frozen=True)
class Refused:
    """What a file is refused with, and the operator's choice where the sentence leaves one."""

    words: str
    output: str | None = None
    gives: Gives | None = None
    is_final: bool = False
    """Whether another file is needed."""


REFUSED: Mapping[str, Refused] = {
    **{
        f"skl_{name}_map": Refused("holds a map; .*options={'zipmap': False}", is_final=True)
        for name in ("forest", "logistic", "mlp")
    },
    **{
        f"skl_{name}_rows": Refused("'probabilities'; .*--output NAME", output="probabilities")
        for name in ("forest", "logistic", "mlp")
    },
    **{
        f"{name}_torch_legacy_vit": Refused("cannot load it: .*Type Error", is_final=True)
        for name in ("float16", "float16_io")
    },
    "paddle_argmax": Refused("--output NAME", output="fetch_name_0"),
    "paddle_two_outputs": Refused("--output NAME", output="fetch_name_1"),
    "tf2onnx_keras_two_outputs": Refused("--output NAME", output="Identity:0"),
    "tf2onnx_keras_dict": Refused("--output NAME", output="cls"),
    "torch_dynamo_dict": Refused("--output NAME", output="linear"),
    "torch_dynamo_tuple": Refused("--output NAME", output="softmax"),
    "torch_dynamo_argmax": Refused("is int64, .*; say --output linear"),
    "ort_qoperator_torch_dynamo_free": Refused("nearly flat. Say --gives", gives="scores"),
    "tflite_uint8": Refused("is uint8, .*; say --output"),
    **{
        f"skl_{name}_rows": Refused("'probabilities'; .*--output NAME", output="probabilities")
        for name in ("pca", "bayes", "boosting", "double", "names")
    },
    **{
        name: Refused("'probabilities'; .*--output NAME", output="probabilities")
        for name in ("lightgbm_rows", "xgboost_rows", "xgboost_rows_bin")
    },
    "lightgbm_map": Refused("holds a map; .*onnxmltools: zipmap=False", is_final=True),
    "skl_double_trees_rows": Refused(
        "does not match expected type .*in float32 .*FloatTensorType",
        output="probabilities",
        is_final=True,
    ),
    "float16_io_skl_pca_rows": Refused(
        "bound to different types .*node_block_list", output="probabilities", is_final=True
    ),
    "ort_int16_torch_dynamo_adaptive_pool": Refused(
        "'QuantizeLinear' takes uint16 since later; .*8 bits", is_final=True
    ),
    "torch_dynamo_double_inside": Refused(
        r"cannot load it: .*in float32 \(`network\.float\(\)`", is_final=True
    ),
    "torch_dynamo_bfloat16_inside": Refused(
        r"cannot load it: .*in float32: `network\.float\(\)`", is_final=True
    ),
    "torch_dynamo_two_inputs": Refused(
        r"\['image', 'extra'\]; .*or make constants of the others", is_final=True
    ),
    "tf2onnx_keras_normalization": Refused(
        "the model's inputs are .*export it with exactly one", is_final=True
    ),
    **{
        f"{name}_sigmoid{end}": Refused("several labels .*--gives prob", gives="probabilities")
        for name, end in (("torch_legacy", ""), ("torch_dynamo", ""), ("tf2onnx_keras", "_five"))
    },
}
ROUNDED: Mapping[str, float] = {
    **dict.fromkeys(  # half precision has three digits
        (
            "float16_tf2onnx_keras_residual",
            "float16_torch_dynamo_opset_22",
            "torch_dynamo_half",
            "torch_dynamo_half_inside",
        ),
        2e-3,
    ),
    **dict.fromkeys(  # devices get the scores before they are put into eight bits
        (
            "ort_qdq_torch_legacy_softmax",
            "ort_qdq_u8s8_torch_legacy_softmax",
            "tflite_int8",
            "tflite_uint8",
            "ort_qdq_torch_dynamo_adaptive_pool",
            "ort_qoperator_torch_dynamo_free",
        ),
        5e-3,
    ),
}
TOLERANCE = 1e-4


@cache
def file_of(name: str) -> bytes:
    return FILES.read(f"{name}.onnx")


def class_names(name: str) -> tuple[ClassName, ...]:
    count = 2 if name.endswith(("sigmoid_one", "_bin")) else 5
    return tuple(ClassName(f"class-{number}") for number in range(count))


@dataclass(frozen=True)
class Taken:
    """A model that came in, by the settings that its refusals asked for."""

    model: CutModel
    wanted: OwnModelRequest
    refusals: tuple[str, ...]


def taken(name: str) -> Taken:
    """Import a file as somebody does who knows nothing of it and does what each refusal says.

    Raises the last refusal where it asks for another file, or where doing as told leads nowhere.
    """
    wanted = OwnModelRequest(PICTURES, class_names(name))
    refusals: list[str] = []
    while True:
        try:
            return Taken(own_model(file_of(name), wanted), wanted, tuple(refusals))
        except ExportError as error:
            followed = follow(str(error), wanted, REFUSED.get(name))
            if followed == wanted or len(refusals) == MOST_STEPS:
                raise
            refusals.append(str(error))
            wanted = followed


def follow(words: str, wanted: OwnModelRequest, chosen: Refused | None) -> OwnModelRequest:
    """Return what an operator asks for who has read a refusal; the same where it asks a file."""
    domain = re.search(r"of domain '([^']+)'; .*--domain", words)
    if domain:
        return replace(wanted, domains=wanted.domains | {domain[1]})
    named = re.search(r"; say --output (\S+)$", words)
    if named:
        return replace(wanted, output=named[1])
    if "--output NAME" in words and chosen is not None:
        return replace(wanted, output=chosen.output)
    if "--gives" in words and chosen is not None:
        return replace(wanted, gives=chosen.gives)
    told = re.search(r"; set (\w+ = .+)$", words)
    if not told:
        return wanted
    settings = re.findall(r"(\w+) = (\[[^\]]*\]|\"[^\"]*\"|[\w.]+)", told[1])
    read: dict[str, Any] = {key: json.loads(value) for key, value in settings}
    changed = Preprocessing.model_validate({**wanted.preprocessing.model_dump(), **read})
    return replace(wanted, preprocessing=changed)


def plain(name: str, inputs: Any, output: str | None) -> Any:
    """Return the probabilities of samples, each asked alone, by plain ONNX Runtime."""
    model = _runnable(onnx.load_model_from_string(file_of(name)))
    if output is not None and all(value.name != output for value in model.graph.output):
        model.graph.output.append(helper.make_empty_tensor_value_info(output))
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    count = source.shape[0] if isinstance(source.shape[0], int) and source.shape[0] > 0 else 1
    if len(source.shape) == 2:
        inputs = inputs.reshape(len(inputs), -1)
    inputs = inputs.astype(TYPES.get(source.type, np.float32))
    alone = len(source.shape) < inputs.ndim
    asked = [one if alone else np.repeat(one[None], count, 0) for one in inputs]
    names = None if output is None else [output]
    answers = [np.asarray(session.run(names, {source.name: one})[0]) for one in asked]
    given = np.stack([one[0] if one.shape[:1] == (count,) else one for one in answers])
    given = given.astype(np.float64).reshape(len(inputs), -1)
    if given.shape[1] == 1:
        return np.hstack([1 - given, given])
    chosen = REFUSED.get(name)
    is_share = given.min() >= 0 and np.abs(given.sum(axis=1) - 1).max() < _SUM
    is_share |= chosen is not None and chosen.gives == "probabilities"
    return given / given.sum(axis=1, keepdims=True) if is_share else softmax(given)


_SUM = 0.05
"""Share by which sums of probabilities in eight bits miss 1."""
TYPES: Mapping[str, Any] = {
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}


def _runnable(model: ModelProto) -> ModelProto:
    """Return a model without tf2onnx's `Erfc`, which no runtime takes: it is 1 - erf."""
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Erfc":
            nodes.append(node)
            continue
        (end,) = node.output
        nodes += [
            helper.make_node("Erf", node.input, [f"{end}/erf"]),
            helper.make_node("Constant", [], [f"{end}/one"], value_float=1.0),
            helper.make_node("Sub", [f"{end}/one", f"{end}/erf"], [end]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model
