"""Builds small ONNX graphs node by node; equal calls make equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from fleetledger.export.graph import IR_VERSION, write
from fleetledger.export.rules import check

OPSET = 17
"""Of graphs that are all our own."""


@dataclass
class GraphBuilder:
    """Collects nodes and constants under a prefix."""

    prefix: str = ""
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def constant(self, name: str, values: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """Add an initialiser; return its name."""
        array = np.asarray(values, dtype, order="C")
        self.constants.append(numpy_helper.from_array(array, self.prefix + name))
        return self.prefix + name

    def add(
        self,
        operator: str,
        *inputs: str,
        output: str | None = None,
        **attributes: Any,  # noqa: ANN401 - ONNX attributes
    ) -> str:
        """Add a node with one output; return the output's name, made up if not given."""
        name = f"{self.prefix}{operator.lower()}_{len(self.nodes)}"
        output = output or f"{name}_output"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, **attributes))
        return output

    def model(self, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> bytes:
        """Return the bytes of a model with what was collected, under our own opset."""
        graph = helper.make_graph(self.nodes, "graph", inputs, outputs, self.constants)
        imports = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        model.ClearField("producer_name")
        data = write(model)
        check(data)
        return data


def float_value(name: str, *shape: int | str) -> Any:  # noqa: ANN401 - onnx has no usable types
    """Describe a float32 input or output."""
    return typed_value(name, TensorProto.FLOAT, *shape)


def typed_value(name: str, element: int, *shape: int | str) -> Any:  # noqa: ANN401 - as above
    """Describe an input or output; `element` is one of `TensorProto`'s types."""
    return helper.make_tensor_value_info(name, element, shape)
