"""What an ONNX file from elsewhere has to be to come in, as a backbone or as a whole model.

Its opset is brought into range, its one input is held against the preprocessing, and its batch axis
is freed. What ONNX Runtime can show is not believed but shown: that a batch gives what its samples
give one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.version_converter
from onnx import ModelProto, TensorProto, helper, numpy_helper

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
from fleetledger.export.input_kinds import input_kind
from fleetledger.export.noise import flat_inputs, noise_inputs
from fleetledger.export.one_by_one import run_one_by_one
from fleetledger.export.own_output import in_a_column, in_float32
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.token_masks import is_mask, made_of_ids
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import FEATURES, AnyPreprocessing, Preprocessing, levels_alone
from fleetledger.schemas.text import TextPreprocessing

Values = npt.NDArray[np.float32]
_PROBES = 3
_ROUNDING = 1e-3
"""Of the largest value: kernels for a batch may round otherwise than those for one image."""
_CONVERTED_UP = 17
_ONE_INPUT = (
    "export it with exactly one, whose name the preprocessing gives, or make constants of the "
    "others (docs/push-models.md shows how)"
)


def in_range(model: ModelProto) -> ModelProto:
    """Return the model under an opset that we write; raise `ModelFileError`."""
    if all(entry.domain not in {"", "ai.onnx"} for entry in model.opset_import):
        result = ModelProto()
        result.CopyFrom(model)  # of trees alone, as onnxmltools writes it
        result.opset_import.append(helper.make_opsetid("", _CONVERTED_UP))
        return result
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
            f"model: opset {opset} cannot be converted to {target}: {_fault(str(error))}"
        ) from error


def _fault(told: str) -> str:
    """Return what the converter found, and the way out."""
    newer = re.search(r"No Previous Version of (\w+) exists", told)
    if newer:
        return f"operator {newer[1]!r} came later; export it again with opset_version={MAX_OPSET}"
    kind = re.search(r"DataType \((\d+)\) .* of operator '(\w+)' is unallowed", told)
    if kind:
        name = TensorProto.DataType.Name(int(kind[1])).lower()
        return (
            f"operator {kind[2]!r} takes {name} since later; export or quantise it with other types"
            " (8 bits: QuantType.QUInt8)"
        )
    return f"{told}; export it again with an opset from {MIN_OPSET} to {MAX_OPSET}"


def in_usual_shape(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return a model with one input that has an axis of samples, and pictures with all their axes.

    Numbers in a row have the order of the preprocessing's layout, as `Flatten` or NumPy's `reshape`
    gives it. Of texts, masks are made of the ids. Other models are returned as they are.
    """
    model, _ = made_of_ids(model, preprocessing)
    if len(model.graph.input) != 1:
        return model
    given = model.graph.input[0].type.tensor_type
    axes = [axis.dim_value for axis in given.shape.dim]
    if input_kind(preprocessing).takes_a_row(axes, preprocessing):
        return _reading(
            model, "in_a_row", axes[1:], axes[0] if axes[0] > 0 else BATCH, preprocessing.shape
        )
    if input_kind(preprocessing).takes_one(axes, preprocessing):
        axes = [has if has > 0 else own for has, own in zip(axes, preprocessing.shape, strict=True)]
        return _reading(model, "alone", axes, 1, axes)
    return model


def _reading(
    model: ModelProto, how: str, own: Sequence[int], batch: int | str, shape: Sequence[int]
) -> ModelProto:
    """Return a model whose input is (batch, *shape), and becomes one sample's `own` or a batch's.

    That is of one sample where `batch` is 1 and the model has no axis of samples.
    """
    result = ModelProto()
    result.CopyFrom(model)
    name, inner = model.graph.input[0].name, f"{model.graph.input[0].name}/{how}"
    _read_instead(result, name, inner)
    target = numpy_helper.from_array(
        np.array(own if how == "alone" else [-1, *own], np.int64), f"{inner}/shape"
    )
    result.graph.initializer.append(target)
    result.graph.node.insert(0, helper.make_node("Reshape", [name, target.name], [inner]))
    element = model.graph.input[0].type.tensor_type.elem_type
    result.graph.input[0].CopyFrom(typed_value(name, element, batch, *shape))
    return result


def remarks_on_rows(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[str, ...]:
    """Return a sentence on the order of colours, where a model takes their numbers in a row."""
    ranks = [len(given.type.tensor_type.shape.dim) for given in model.graph.input]
    if not isinstance(preprocessing, Preprocessing) or preprocessing.channels == 1 or ranks != [2]:
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
            f"input {expected!r}: the model takes {input_kind(preprocessing).nouns} of shape "
            f"({', '.join(str(has) if has > 0 else 'free' for has in shape[1:])}), the "
            f"preprocessing makes {preprocessing.shape}; {_fitting(shape[1:], preprocessing)}"
        )


def _fitting(has: list[int], preprocessing: AnyPreprocessing) -> str:
    """Return the settings with which a preprocessing makes what a model takes."""
    if isinstance(preprocessing, TextPreprocessing):
        return f"set length = {has[0]}"
    if isinstance(preprocessing, ArrayPreprocessing):
        if len(has) != len(preprocessing.shape):
            return "set shape to that of the samples that it was trained on"
        axes = zip(has, preprocessing.shape, strict=True)
        return f"set shape = {[axis if axis > 0 else own for axis, own in axes]}"
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
    takes, rank = input_kind(preprocessing), len(shape)
    axes = len(preprocessing.shape) + 1
    kind = TensorProto.DataType.Name(element)
    in_a_row = takes.in_a_row and element in takes.elements and rank == 2 and shape[1] > 0
    if in_a_row and rank != axes:
        raise ModelFileError(
            f"input {name!r}: the model takes {count_of(shape[1], 'number')} in a row, the "
            f"preprocessing makes {math.prod(preprocessing.shape):,}; "
            f"{_fitting(shape[1:], preprocessing)}"
        )
    if element not in takes.elements or rank != axes:
        raise ModelFileError(
            f"input {name!r}: {kind} of rank {rank} is not supported; export it with "
            f"{takes.wanted(preprocessing)}"
        )
    if not isinstance(preprocessing, Preprocessing):
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


def with_usual_types(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return a checked model whose input is float32, or int64 of texts, and its output float32.

    What it takes and gives in other precision goes through a `Cast`.
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    tensor = graph.input[0].type.tensor_type
    usual = input_kind(preprocessing).usual
    if tensor.elem_type != usual:
        source, cast = graph.input[0].name, f"{graph.input[0].name}/as_it_takes"
        _read_instead(result, source, cast)
        turn = helper.make_node("Cast", [source], [cast], to=tensor.elem_type)
        graph.node.insert(0, turn)
        tensor.elem_type = usual
    in_float32(result)
    return result


def feeds_of(
    model: ModelProto, preprocessing: AnyPreprocessing, inputs: npt.NDArray[Any]
) -> list[dict[str, npt.NDArray[Any]]]:
    """Return what a file as it came takes for each of some preprocessed samples.

    That is of its own type, in a row where it takes one, repeated where it takes several samples at
    once, and with a mask of tokens where it asks for one.
    """
    tensors = {value.name: value.type.tensor_type for value in model.graph.input}
    name, count = preprocessing.input_name, samples_at_once(model, preprocessing)
    axes = [axis.dim_value for axis in tensors[name].shape.dim]
    if input_kind(preprocessing).takes_a_row(axes, preprocessing):
        inputs = inputs.reshape(len(inputs), -1)
    if count:
        inputs = np.repeat(inputs[:, np.newaxis], count, axis=1)
    kinds = {
        name: helper.tensor_dtype_to_np_dtype(tensor.elem_type) for name, tensor in tensors.items()
    }
    pad = preprocessing.pad_id if isinstance(preprocessing, TextPreprocessing) else 0
    return [
        {
            name: each.astype(kinds[name]),
            **{
                other: (is_mask(other) * (each != pad)).astype(kinds[other])
                for other in tensors
                if other != name
            },
        }
        for each in inputs
    ]


def samples_at_once(model: ModelProto, preprocessing: AnyPreprocessing) -> int:
    """Return how many samples a file takes: 1 if any number, 0 where they have no axis."""
    given = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    axes = [axis.dim_value for axis in given[preprocessing.input_name]]
    return 0 if input_kind(preprocessing).takes_one(axes, preprocessing) else max(axes[0], 1)


def free_batch(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[ModelProto, Values]:
    """Return the first variant with a free batch axis that runs a batch rightly, and its result.

    The last one runs sample by sample, where a batch fails or its range scales each sample.
    """
    first: ModelFileError | None = None
    if not _scales_by_batch(model):
        for candidate in batch_candidates(model, preprocessing.shape):
            try:
                return candidate, _in_rows(candidate, preprocessing)
            except ModelFileError as error:
                first = first or error
        if isinstance(first, _MixedError):
            raise first
    try:
        alone = run_one_by_one(model, preprocessing)
        return alone, _in_rows(alone, preprocessing)
    except ModelFileError as error:
        raise error from first


def _in_rows(model: ModelProto, preprocessing: AnyPreprocessing) -> Values:
    """Return what `outputs_of` does; a model that gives a number (N,) is made to give (N, 1)."""
    return in_a_column(model, outputs_of(model, preprocessing))


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
    if any(one.shape != (1, *together.shape[1:]) for one in alone):
        raise ModelFileError(
            f"output: shape {alone[0].shape} for one image, and {together.shape} for {_PROBES}; "
            "give one row of numbers per image"
        )
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
