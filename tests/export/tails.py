"""Ends of classifiers, as exporters and tools write them behind the scores `logits` (N, C)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.export.networks import value
from tests.export.own_networks import classifier

Tail = Callable[["Ending", str], str]


class Ending:
    """Nodes and constants that are put behind a network."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"tail_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, numbers: Any, kind: Any = np.float32) -> str:
        name = f"tail_constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(numbers, kind), name))
        return name

    def squeezed(self, name: str) -> str:
        wide = self.add("Unsqueeze", name, self.constant([2, 3], np.int64))
        return self.add("Squeeze", wide, self.constant([2, 3], np.int64))

    def cast(self, name: str, kind: int) -> str:
        return self.add("Cast", name, to=kind)

    def quantised(self, name: str, step: float, zero: int = 0, kind: Any = np.uint8) -> str:
        given = (self.constant(step), self.constant(zero, kind))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", name, *given), *given)


def softmax(end: Ending, name: str) -> str:
    return end.add("Softmax", name, axis=1)


def decomposed(end: Ending, name: str) -> str:
    largest = end.add("ReduceMax", name, axes=[1], keepdims=1)
    powers = end.add("Exp", end.add("Sub", name, largest))
    total = end.add("ReduceSum", powers, end.constant([1], np.int64), keepdims=1)
    return end.add("Div", powers, total)


def through_half(end: Ending, name: str) -> str:
    half = end.add("Softmax", end.cast(name, TensorProto.FLOAT16), axis=-1)
    return end.cast(half, TensorProto.FLOAT)


def ensemble(end: Ending, name: str) -> str:
    other = end.add("Mul", name, end.constant(0.3))
    return end.add("Mean", softmax(end, name), softmax(end, other))


def with_tail(
    tail: Tail, classes: int = 5, *, grown: float = 1.0, shape: Any = None, **changes: Any
) -> ModelProto:
    """A classifier whose output is what `tail` makes of its scores; `grown` multiplies these."""
    model, end = classifier(classes, **changes), Ending()
    start = "logits" if grown == 1 else end.add("Mul", "logits", end.constant(grown))
    output = tail(end, start)
    model.graph.node.extend(end.nodes)
    model.graph.initializer.extend(end.constants)
    del model.graph.output[:]
    model.graph.output.append(value(output, shape or ["batch", classes]))
    return model
