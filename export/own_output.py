"""The one output of a network from elsewhere: which value it is, and its type and axes.

A file may put out several values, class numbers instead of scores, samples without an axis, or
classes on the last axis. What can be turned is turned by nodes at the end; of the rest the refusal
names the value to take instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from fleetledger.export.cut import Cutting
from fleetledger.export.errors import ModelFileError

Values = npt.NDArray[np.float32]
_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
_TURNED = frozenset({TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16})
"""Types of outputs that become float32."""
_MOST_STEPS = 12
"""Nodes between an output and the scores that it is made of."""


def choose_output(model: ModelProto, wanted: str | None) -> tuple[str, ...]:
    """Leave one output, and return the others that are floats.

    `wanted` is a declared output or any value inside. Raises `ModelFileError` where it is neither,
    or where it is left out and several are declared.
    """
    outputs = {value.name: value for value in model.graph.output}
    if wanted is None and len(outputs) > 1:
        raise ModelFileError(
            f"output: the model has {len(outputs)}, {', '.join(map(repr, outputs))}; say which one "
            "counts with --output NAME"
        )
    if (
        wanted is not None
        and wanted not in outputs
        and all(wanted not in node.output for node in model.graph.node)
    ):
        raise ModelFileError(
            f"output: {wanted!r} is none of the model's, which are {', '.join(map(repr, outputs))}"
            "; a value inside is named as its node puts it out"
        )
    kept = wanted or next(iter(outputs))
    others = [
        name
        for name, value in outputs.items()
        if name != kept and value.type.tensor_type.elem_type in _FLOATS
    ]
    declare_output(model, kept)
    return tuple(others)


def declare_output(model: ModelProto, name: str) -> None:
    """Make a value the one output of a model; one inside gets the type that inference finds."""
    declared = next((value for value in model.graph.output if value.name == name), None)
    if declared is None:
        element = _types(model).get(name)
        declared = (
            helper.make_empty_tensor_value_info(name)
            if not element
            else helper.make_tensor_value_info(name, element, None)
        )
    del model.graph.output[:]
    model.graph.output.append(declared)


def check_output(
    model: ModelProto, option: str, others: Sequence[str] = (), *, whole: bool = False
) -> None:
    """Raise `ModelFileError` where the output is no tensor of floats, naming one that is.

    `option` is the command's option that takes a value's name; `whole` numbers are let through.
    """
    output = model.graph.output[0]
    kind, element = output.type.WhichOneof("value"), output.type.tensor_type.elem_type
    fits = element in {0, *_FLOATS, *_TURNED} or (whole and element != TensorProto.STRING)
    if kind in {None, "tensor_type"} and fits:
        return
    what = f"a {(kind or '').removesuffix('_type')} of tensors"
    if kind == "tensor_type":
        what = f"{TensorProto.DataType.Name(element).lower()}, such as class numbers or labels"
    near = [*others, *_floats_before(model, output.name)][:1]
    way = f"say {option} {near[0]}" if near else "export the tensor of floats that it is made of"
    raise ModelFileError(f"output: {output.name!r} is {what}, and float32 is expected; {way}")


def in_float32(model: ModelProto) -> None:
    """Append a `Cast` where the output is of another type."""
    graph = model.graph
    output = graph.output[0]
    given = output.type.tensor_type
    if given.elem_type in {0, TensorProto.FLOAT}:
        return
    own = output.name
    output.name = f"{own}/in_float32"
    graph.node.append(helper.make_node("Cast", [own], [output.name], to=TensorProto.FLOAT))
    given.elem_type = TensorProto.FLOAT


def in_a_column(model: ModelProto, given: Values) -> Values:
    """Give samples of one number (N,) an axis, in the model and in what it gives."""
    if given.ndim != 1:
        return given
    _append(model, "column", "Reshape", [-1, 1])
    return given[:, np.newaxis]


def with_classes_first(
    model: ModelProto, given: Values, size: tuple[int, int], classes: int
) -> Values:
    """Bring pixels' scores into the order (N, C, h, w), in the model and in what it gives.

    They come as that, as (N, h, w, C), or of two classes as (N, h, w).
    """
    if given.ndim == 3 and classes == 2 and _fits(given.shape[1:], size):
        _append(model, "plane", "Reshape", [-1, 1, *given.shape[1:]])
        return given[:, np.newaxis]
    planes = {classes, 1} if classes == 2 else {classes}
    if (
        given.ndim != 4
        or (given.shape[1] in planes and _fits(given.shape[2:], size))
        or not (given.shape[3] in planes and _fits(given.shape[1:3], size))
    ):
        return given
    _append(model, "planes", "Transpose", None)
    return np.moveaxis(given, 3, 1)


def _fits(sides: tuple[int, ...], size: tuple[int, int]) -> bool:
    return all(side > 0 and whole % side == 0 for side, whole in zip(sides, size, strict=True))


def _append(model: ModelProto, name: str, operator: str, shape: list[int] | None) -> None:
    graph = model.graph
    own, turned = graph.output[0].name, f"{graph.output[0].name}/{name}"
    if shape is None:
        node = helper.make_node(operator, [own], [turned], perm=[0, 3, 1, 2])
    else:
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{turned}/to"))
        node = helper.make_node(operator, [own, f"{turned}/to"], [turned])
    graph.node.append(node)
    graph.output[0].CopyFrom(helper.make_tensor_value_info(turned, TensorProto.FLOAT, None))


def _types(model: ModelProto) -> dict[str, int]:
    """Return the element types of values that inference finds."""
    found = shape_inference.infer_shapes(model).graph
    return {
        value.name: value.type.tensor_type.elem_type
        for value in (*found.value_info, *found.output, *found.input)
    }


def _floats_before(model: ModelProto, output: str) -> list[str]:
    """Return the nearest value of floats that an output of other kind is made of, if it is near.

    Only standard operators are followed: those of other domains read samples and put out labels.
    """
    cutting, types, name = Cutting(model.graph), _types(model), output
    for _ in range(_MOST_STEPS):
        node = cutting.maker(name)
        if node is None or node.domain not in {"", "ai.onnx"} or not node.input:
            return []
        name = node.input[0]
        if types.get(name) in _FLOATS and cutting.maker(name) is not None:
            return [name]
    return []
