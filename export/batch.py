"""Frees the batch axis of a network that was exported for a fixed number of samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from fleetledger.export.builder import typed_value
from fleetledger.export.graph import BATCH, nested_graphs


def batch_candidates(model: ModelProto, shape: tuple[int, ...]) -> Iterator[ModelProto]:
    """Yield copies of `model` whose input has the shape (N, *shape), the plainest first.

    The first only declares the axis free. The second also turns the fixed number of images into
    'as many as came in' wherever it begins the target of a `Reshape`; whether that is right for
    the network is for the caller to try.
    """
    tensor = model.graph.input[0].type.tensor_type
    given = max(tensor.shape.dim[0].dim_value, 0)
    plain = ModelProto()
    plain.CopyFrom(model)
    name = model.graph.input[0].name
    plain.graph.input[0].CopyFrom(typed_value(name, tensor.elem_type, BATCH, *shape))
    _free_output(plain)
    yield plain
    if given:
        patched = ModelProto()
        patched.CopyFrom(plain)
        _free_reshapes(patched, given)
        yield patched


def _free_output(model: ModelProto) -> None:
    """Forget the declared shape, which may contradict the free axis; the caller declares anew."""
    model.graph.output[0].type.tensor_type.ClearField("shape")


def _free_reshapes(model: ModelProto, batch: int) -> None:
    for graph in nested_graphs(model.graph):
        constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                constants[node.output[0]] = node.attribute[0].t
        for number, node in enumerate(graph.node):
            target = constants.get(node.input[1]) if node.op_type == "Reshape" else None
            freed = None if target is None else _freed(target, batch)
            if freed is not None:
                _copy_zeros(node)
                freed.name = f"{node.input[1]}/free_{number}"
                graph.initializer.append(freed)
                node.input[1] = freed.name


def _copy_zeros(node: NodeProto) -> None:
    """Let a 0 in the target of a `Reshape` copy the axis, as it does without `allowzero`."""
    kept = [attribute for attribute in node.attribute if attribute.name != "allowzero"]
    del node.attribute[:]
    node.attribute.extend(kept)


def _freed(target: TensorProto, batch: int) -> TensorProto | None:
    """Return the shape with its first entry 0, which copies the axis, if that entry is `batch`."""
    shape = numpy_helper.to_array(target)
    if shape.ndim != 1 or len(shape) < 2 or shape[0] != batch:
        return None
    return numpy_helper.from_array(np.concatenate([[0], shape[1:]]).astype(np.int64))
