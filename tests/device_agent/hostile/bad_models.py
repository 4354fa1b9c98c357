"""Networks that keep to every rule and give the right answers, if they come to give any."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.device_agent.hostile.onnx_files import frozen

LONG = 40_000
"""Rounds of a loop, about as many as the rules allow; of large arrays they take minutes."""


def with_extra(*nodes: NodeProto, constants: dict[str, np.ndarray]) -> bytes:
    """The good frozen part, whose features have the output `extra` of some nodes added."""
    model = frozen()
    for node in model.graph.node:
        node.output[:] = ["plain" if name == "features" else name for name in node.output]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model.graph.initializer.extend(tensors)
    model.graph.node.extend([*nodes, helper.make_node("Add", ["plain", "extra"], ["features"])])
    onnx.checker.check_model(model)
    return serialised(model)


def serialised(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def looping(times: int, numbers: int = 1) -> bytes:
    """Takes so many sines so many times before it adds zero."""
    scalar = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("number", TensorProto.INT64, []),
            ("goes_on", TensorProto.BOOL, []),
            ("sum", TensorProto.FLOAT, [numbers]),
            ("goes_on_then", TensorProto.BOOL, []),
            ("sum_then", TensorProto.FLOAT, [numbers]),
        )
    ]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["goes_on"], ["goes_on_then"]),
            helper.make_node("Sin", ["sum"], ["sum_then"]),
        ],
        "body",
        scalar[:3],
        scalar[3:],
    )
    return with_extra(
        helper.make_node("ConstantOfShape", ["numbers"], ["zeros"]),
        helper.make_node("Loop", ["times", "yes", "zeros"], ["sines"], body=body),
        helper.make_node("ReduceMax", ["sines"], ["extra"], keepdims=0),
        constants={
            "times": np.array(times, np.int64),
            "yes": np.array(True),
            "numbers": np.array([numbers], np.int64),
        },
    )


def hungry(numbers: int) -> bytes:
    """Fills an array of so many floats with zeros, and adds their sum."""
    return with_extra(
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["extra"], keepdims=0),
        constants={"shape": np.array([numbers], np.int64)},
    )


def adding(value: float) -> bytes:
    """Adds a number, such as NaN, to every feature."""
    return with_extra(
        helper.make_node("Identity", ["value"], ["extra"]),
        constants={"value": np.array(value, np.float32)},
    )
