"""What an ONNX file from elsewhere has to be to come in, as a backbone or as a whole model.

Its opset is brought into range, its one input is held against the preprocessing, and its batch axis
is freed. What ONNX Runtime can show is not believed but shown: that a batch gives what its samples
give one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.version_converter
from onnx import ModelProto, TensorProto, helper

from fleetledger.export.batch import batch_candidates
from fleetledger.export.builder import typed_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import (
    BATCH,
    MAX_OPSET,
    MIN_OPSET,
    nested_graphs,
    nodes_of,
    opset_of,
    write,
)
from fleetledger.export.noise import flat_inputs, noise_inputs
from fleetledger.export.one_by_one import run_one_by_one
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import FEATURES, AnyPreprocessing, levels_alone

Values = npt.NDArray[np.float32]
_PROBES = 3
_ROUNDING = 1e-3
"""Of the largest value: kernels for a batch may round otherwise than those for one image."""
_CONVERTED_UP = 17
_ONE_INPUT = "export it with exactly one, whose name the preprocessing gives"


def in_range(model: ModelProto) -> ModelProto:
    """Return the model under an opset that we write; raise `ModelFileError`."""
    opset = opset_of(model)
    if MIN_OPSET <= opset <= MAX_OPSET:
        return model
    target = MAX_OPSET if opset > MAX_OPSET else _CONVERTED_UP
    once = ModelProto()
    once.CopyFrom(model)
    imports = {entry.domain: entry for entry in model.opset_import}
    del once.opset_import[:]
    once.opset_import.extend(imports.values())  # skl2onnx names a domain twice; one is converted
    try:
        return onnx.version_converter.convert_version(once, target)
    except Exception as error:  # the converter raises RuntimeError and others of its own
        raise ModelFileError(
            f"model: opset {opset} cannot be converted to {target} ({error}); export it again with "
            f"an opset from {MIN_OPSET} to {MAX_OPSET}"
        ) from error


def as_pictures(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return a model that takes pictures; one that takes their numbers in a row lays them out.

    A row has the order of the preprocessing's layout, as `Flatten` or NumPy's `reshape` gives it.
    """
    if preprocessing.mode == "text" or len(model.graph.input) != 1:
        return model
    given = model.graph.input[0].type.tensor_type
    if [axis.dim_value for axis in given.shape.dim][1:] != [math.prod(preprocessing.shape)]:
        return model
    result = ModelProto()
    result.CopyFrom(model)
    name, row = model.graph.input[0].name, f"{model.graph.input[0].name}/in_a_row"
    _read_instead(result, name, row)
    result.graph.node.insert(0, helper.make_node("Flatten", [name], [row], axis=1))
    batch = given.shape.dim[0].dim_value or BATCH
    result.graph.input[0].CopyFrom(typed_value(name, given.elem_type, batch, *preprocessing.shape))
    return result


def remarks_on_rows(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[str, ...]:
    """Return a sentence on the order of colours, where a model takes their numbers in a row."""
    ranks = [len(given.type.tensor_type.shape.dim) for given in model.graph.input]
    if preprocessing.mode == "text" or preprocessing.channels == 1 or ranks != [2]:
        return ()
    orders = {
        "NCHW": "colour after colour; of rows that NumPy or scikit-learn made of pictures (height, "
        'width, colour), set layout = "NHWC"',
        "NHWC": "pixel after pixel, as NumPy and scikit-learn make rows of pictures",
    }
    return (f"its numbers come in a row, {orders[preprocessing.layout]}",)


def _read_instead(model: ModelProto, name: str, other: str) -> None:
    """Have all nodes read another value than the input."""
    for part in nested_graphs(model.graph):
        for node in part.node:
            node.input[:] = [other if read == name else read for read in node.input]


def check_input(
    model: ModelProto, preprocessing: AnyPreprocessing, reserved: tuple[str, ...]
) -> None:
    """Raise `ModelFileError` unless the one input is what the preprocessing makes.

    An axis of 0 or less is free, as some exporters write -1.

    No input may have a name that begins with a `reserved` prefix.
    """
    names = [value.name for value in model.graph.input]
    expected = preprocessing.input_name
    if names != [expected]:
        raise ModelFileError(
            f"input_name: the preprocessing says {expected!r}, the model's inputs are {names}; "
            + (f'set input_name = "{names[0]}"' if len(names) == 1 else _ONE_INPUT)
        )
    if expected == FEATURES or expected.startswith(reserved):
        raise ModelFileError(
            f"input_name: {expected!r} is reserved; rename the input, for example to 'image'"
        )
    tensor = model.graph.input[0].type.tensor_type
    shape = [dimension.dim_value for dimension in tensor.shape.dim]
    _check_kind(expected, tensor.elem_type, shape, preprocessing)
    if any(
        has > 0 and has != wants for has, wants in zip(shape[1:], preprocessing.shape, strict=True)
    ):
        raise ModelFileError(
            f"input {expected!r}: the model takes {_takes(preprocessing)} of shape "
            f"({', '.join(str(has) if has > 0 else 'free' for has in shape[1:])}), the "
            f"preprocessing makes {preprocessing.shape}; {_fitting(shape[1:], preprocessing)}"
        )


def _takes(preprocessing: AnyPreprocessing) -> str:
    return "texts" if preprocessing.mode == "text" else "images"


def _fitting(has: list[int], preprocessing: AnyPreprocessing) -> str:
    """Return the settings with which a preprocessing makes what a model takes."""
    if preprocessing.mode == "text":
        return f"set length = {has[0]}"
    if len(has) == 1:  # numbers in a row, perhaps of a square picture
        for channels in sorted(_MODES, key=lambda channels: channels != preprocessing.channels):
            side = math.isqrt(has[0] // channels)
            if side * side * channels == has[0]:
                sides = [side, side]
                has = [channels, *sides] if preprocessing.layout == "NCHW" else [*sides, channels]
                break
        else:
            return "set size to the height and width of the pictures that it was trained on"
    layouts = [layout for layout, place in (("NCHW", 0), ("NHWC", 2)) if has[place] in _MODES]
    if not layouts:
        return "an image has 1 or 3 channels; export a network that takes one of these"
    layout = preprocessing.layout if preprocessing.layout in layouts else layouts[0]
    place = 0 if layout == "NCHW" else 2
    sides = [side for axis, side in enumerate(has) if axis != place]
    size = [side if side > 0 else own for side, own in zip(sides, preprocessing.size, strict=True)]
    same = has[place] == preprocessing.channels
    mode = preprocessing.mode if same else _MODES[has[place]]
    wanted = {"layout": f'"{layout}"', "size": str(size), "mode": f'"{mode}"'}
    given = {
        "layout": f'"{preprocessing.layout}"',
        "size": str(list(preprocessing.size)),
        "mode": f'"{preprocessing.mode}"',
    }
    return "set " + " and ".join(
        f"{name} = {value}" for name, value in wanted.items() if value != given[name]
    )


_MODES = {1: "L", 3: "RGB"}
"""Mode of an image by its channels."""


def _check_kind(name: str, element: int, shape: list[int], preprocessing: AnyPreprocessing) -> None:
    text, rank = preprocessing.mode == "text", len(shape)
    kinds, axes = (_IDS, 2) if text else (tuple(_ELEMENTS.values()), 4)
    kind = TensorProto.DataType.Name(element)
    if preprocessing.mode != "text" and element in kinds and rank == 2 and shape[1] > 0:
        raise ModelFileError(
            f"input {name!r}: the model takes {shape[1]:,} numbers in a row, the preprocessing "
            f"makes {math.prod(preprocessing.shape):,}; "
            f"{_fitting(shape[1:], preprocessing)}"
        )
    if element not in kinds or rank != axes:
        wanted = (
            "INT64 token ids of rank 2"
            if text
            else "a FLOAT, FLOAT16 or UINT8 image of rank 4, or its "
            f"{math.prod(preprocessing.shape):,} numbers in a row"
        )
        raise ModelFileError(
            f"input {name!r}: {kind} of rank {rank} is not supported; export it with {wanted}"
        )
    if preprocessing.mode == "text":
        return
    if preprocessing.dtype != "float32" and element != _ELEMENTS[preprocessing.dtype]:
        raise ModelFileError(
            f"dtype: {preprocessing.dtype!r}, but the model's input {name!r} is {kind}; leave "
            "dtype out"
        )
    levels = (1, (0.0,) * preprocessing.channels, (1.0,) * preprocessing.channels)
    given = (preprocessing.divide_by, preprocessing.mean, preprocessing.deviation)
    if element == TensorProto.UINT8 and given != levels:
        raise ModelFileError(f"input {name!r}: {levels_alone(preprocessing.channels)}")


_ELEMENTS: dict[str, int] = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
}
"""Types of inputs of pictures, by their names in a preprocessing."""
_IDS = (TensorProto.INT64, TensorProto.INT32)
_TURNED = frozenset({TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16})
"""Types of outputs that become float32."""


def with_usual_types(model: ModelProto) -> ModelProto:
    """Return a checked model whose input is float32, or int64 of texts, and its output float32.

    What it takes and gives in other precision goes through a `Cast`.
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    tensor = graph.input[0].type.tensor_type
    usual = TensorProto.INT64 if tensor.elem_type in _IDS else TensorProto.FLOAT
    if tensor.elem_type != usual:
        source, cast = graph.input[0].name, f"{graph.input[0].name}/as_it_takes"
        _read_instead(result, source, cast)
        turn = helper.make_node("Cast", [source], [cast], to=tensor.elem_type)
        graph.node.insert(0, turn)
        tensor.elem_type = usual
    for output in graph.output:
        given = output.type.tensor_type
        if given.elem_type in _TURNED:
            own = output.name
            output.name = f"{own}/in_float32"
            graph.node.append(helper.make_node("Cast", [own], [output.name], to=TensorProto.FLOAT))
            given.elem_type = TensorProto.FLOAT
    return result


def as_it_takes(model: ModelProto, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return preprocessed samples in the type of a file's own input, and in a row if it has one."""
    tensor = next(value.type.tensor_type for value in model.graph.input)
    if len(tensor.shape.dim) == 2:
        inputs = inputs.reshape(len(inputs), -1)
    return inputs.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def check_output(model: ModelProto) -> None:
    """Raise `ModelFileError` where the output that counts is a sequence or the like, no tensor."""
    output = model.graph.output[0]
    kind = output.type.WhichOneof("value")
    if kind in (None, "tensor_type"):
        return
    maker = next((node.op_type for node in model.graph.node if output.name in node.output), "")
    raise ModelFileError(
        f"output: {output.name!r} is a {kind.removesuffix('_type')}, made by {maker!r}; export the "
        "tensor that goes into that, or leave that node out"
    )


def free_batch(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[ModelProto, Values]:
    """Return the first variant with a free batch axis that runs a batch rightly, and its result.

    The last one runs sample by sample, where a batch fails or its range scales each sample.
    """
    first: ModelFileError | None = None
    if not _scales_by_batch(model):
        for candidate in batch_candidates(model, preprocessing.shape):
            try:
                return candidate, outputs_of(candidate, preprocessing)
            except ModelFileError as error:
                first = first or error
        if isinstance(first, _MixedError):
            raise first
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    if batch > 1:
        raise ModelFileError(
            f"batch: fixed at {batch}, and cannot be freed; export it for one sample, or with a "
            "dynamic batch axis"
        ) from first
    alone = run_one_by_one(model, preprocessing)
    return alone, outputs_of(alone, preprocessing)


def outputs_of(model: ModelProto, preprocessing: AnyPreprocessing) -> Values:
    """Return what the model gives for a few made-up samples; raise `ModelFileError`.

    A sample has to give alone what it gives in a batch.
    """
    loaded = LoadedModel(write(model))
    name, inputs = preprocessing.input_name, noise_inputs(preprocessing, _PROBES)
    together = next(iter(loaded.run({name: inputs}).values()))
    if together.dtype != np.float32 or together.ndim < 1 or len(together) != _PROBES:
        raise ModelFileError(
            f"output: {together.dtype} of shape {together.shape} for {_PROBES} images; give one "
            "row of float32 numbers per image"
        )
    alone = [next(iter(loaded.run({name: image[None]}).values())) for image in inputs]
    if not close(together, np.concatenate(alone)):
        raise _MixedError(
            "output: an image gives other numbers alone than in a batch; export the network in "
            "inference mode, and a softmax over the classes, not over the batch"
        )
    return together


class _MixedError(ModelFileError):
    """Samples of a batch change each other's numbers."""


def _scales_by_batch(model: ModelProto) -> bool:
    """Return whether numbers are put into eight bits by the range of a whole batch."""
    return any(node.op_type == "DynamicQuantizeLinear" for node in nodes_of(model.graph))


@dataclass(frozen=True)
class FlatPictures:
    """Pictures of one colour, as a covered or dazzled camera takes them."""

    answered: tuple[npt.NDArray[Any], ...]
    """Those, preprocessed, for which a network puts out finite numbers."""
    remarks: tuple[str, ...]
    """A sentence on the others."""


def flat_pictures(model: ModelProto, preprocessing: AnyPreprocessing) -> FlatPictures:
    """Run a network on pictures of one colour; texts have none such."""
    loaded, answered, faults = LoadedModel(write(model)), [], dict[str, list[str]]()
    for colour, picture in flat_inputs(preprocessing).items():
        try:
            given = next(iter(loaded.run({preprocessing.input_name: picture[None]}).values()))
        except ModelFileError:
            faults.setdefault("no output", []).append(colour)
            continue
        if np.isfinite(given).all():
            answered.append(picture)
        else:
            faults.setdefault("NaN or infinity", []).append(colour)
    remarks = (
        f"{fault} for a picture that is all {', or all '.join(colours)}, as a covered or dazzled "
        "camera takes; where the network divides by a deviation or takes a logarithm, add a small "
        "number there, or such pictures have no answer"
        for fault, colours in faults.items()
    )
    return FlatPictures(tuple(answered), tuple(remarks))


def close(some: Values, others: Values) -> bool:
    """Whether two results are equal but for rounding."""
    if some.shape != others.shape:
        return False
    largest = float(np.abs(others[np.isfinite(others)]).max(initial=0.0))
    return np.allclose(some, others, rtol=0, atol=_ROUNDING * largest, equal_nan=True)
