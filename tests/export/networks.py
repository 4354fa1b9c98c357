"""Small networks that tests export, written with onnx's own helpers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fleetledger.schemas.models import Preprocessing

COLOUR = Preprocessing(
    mode="RGB", size=(12, 10), mean=(0.5, 0.4, 0.3), deviation=(0.2, 0.3, 0.4), input_name="image"
)
DIGITS = Preprocessing(
    mode="L", size=(8, 8), divide_by=1, mean=(0.0,), deviation=(1.0,), input_name="image"
)
WIDTH = 7


def convolution() -> tuple[list[NodeProto], list[TensorProto]]:
    """3 channels to WIDTH, ReLU: a feature map named `map`."""
    weights = np.random.default_rng(1).normal(size=(WIDTH, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "weights"], ["convolved"], name="first"),
        helper.make_node("Relu", ["convolved"], ["map"], name="second"),
    ]
    return nodes, [numpy_helper.from_array(weights, "weights")]


def pooled() -> tuple[list[NodeProto], list[TensorProto]]:
    nodes, constants = convolution()
    nodes.append(helper.make_node("GlobalAveragePool", ["map"], ["pool"], name="third"))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], name="fourth"))
    return nodes, constants


def value(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def network(
    parts: tuple[list[NodeProto], list[TensorProto]],
    output: Any,
    image: Any = None,
    opset: int = 17,
    **changes: Any,
) -> ModelProto:
    image = image if image is not None else value("image", ["batch", 3, 12, 10])
    inputs = image if isinstance(image, list) else [image]
    outputs = output if isinstance(output, list) else [output]
    graph = helper.make_graph(parts[0], "some graph", inputs, outputs, parts[1])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **changes
    )


def pooled_network(**changes: Any) -> ModelProto:
    return network(pooled(), value("flat", ["batch", WIDTH]), **changes)


def data(model: ModelProto) -> bytes:
    return bytes(model.SerializeToString())


def load(model: bytes) -> ModelProto:
    return onnx.load_model_from_string(model)
