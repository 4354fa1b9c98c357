"""A backbone that puts out more than its last layer, of a picture and of its mirror image.

The result is an ONNX feature extractor like any other, so that nothing after it, on devices or at
the coordinator, is new. With the layers l = 1..L of a network, each of width d_l, all per sample:

    v_l = mean over the pixels of layer l       as it is where the layer is a vector
    u_l = v_l / sqrt(mean(v_l^2))               layers of other sizes count alike; zeros stay zeros
    f = (u_1, ..., u_L)                         width d_1 + ... + d_L
    f = (f(x) + f(x mirrored)) / 2              where mirror images are asked for

Layers behind the last one that is asked for are left out of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.cut import Cutting
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH, clean, opset_of, write
from fleetledger.export.incoming import check_input, in_range, in_usual_shape, with_usual_types
from fleetledger.export.input_kinds import channels_last, input_kind
from fleetledger.export.noise import noise_inputs
from fleetledger.export.rules import check, read_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing

PREFIX = "layers/"
_AXES_ARE_INPUTS = 18
"""Opset from which `ReduceMean` takes its axes as an input."""
_FROM_THE_END, _TO_THE_START = -1, -(2**31)


@dataclass(frozen=True)
class FeatureChoice:
    """Which features of a network count, and of how many views of a picture."""

    layers: tuple[str, ...] = ()
    """Values, nodes or modules of the network; none: what it puts out."""
    mirror: bool = False
    """Whether features are the mean of those of the picture and of its mirror image."""

    def __bool__(self) -> bool:
        """Whether anything of the network is to be changed."""
        return bool(self.layers) or self.mirror


AS_IT_IS = FeatureChoice()


def backbone_with_features(
    data: bytes, preprocessing: AnyPreprocessing, choice: FeatureChoice
) -> bytes:
    """Return the feature extractor `data` with the layers and views of `choice`.

    What `import_backbone` requires of it, that asks for itself. Raises `ModelFileError` naming the
    layer or the file's fault.
    """
    if not choice:
        return data
    if choice.mirror and not isinstance(preprocessing, Preprocessing):
        nouns = input_kind(preprocessing).nouns
        raise ModelFileError(f"mirror: true, but the backbone reads {nouns}; leave it out")
    model = in_usual_shape(clean(in_range(read_model(data))), preprocessing)
    check_input(model, preprocessing, (PREFIX,))
    model = with_usual_types(model, preprocessing)
    if choice.layers:
        model = _with_layers(model, preprocessing, choice.layers)
    if choice.mirror:
        model = _with_mirror(model, preprocessing)
    result = write(model)
    check(result)
    return result


def _with_layers(
    model: ModelProto, preprocessing: AnyPreprocessing, layers: tuple[str, ...]
) -> ModelProto:
    values = _values_of(model, layers)
    shapes = _shapes(model, preprocessing, values)
    tail = _Tail(PREFIX, opset=opset_of(model))
    vectors = [
        tail.scaled(tail.pooled(value, len(shape), preprocessing))
        for value, shape in zip(values, shapes, strict=True)
    ]
    output = tail.add("Concat", *vectors, axis=1)
    return _ending_in(model, tail, output)


def _values_of(model: ModelProto, layers: tuple[str, ...]) -> list[str]:
    if len(set(layers)) != len(layers):
        raise ModelFileError(f"layers: {', '.join(layers)}; name each layer once")
    cutting = Cutting(model.graph)
    return [cutting.layer(name) for name in layers]


def _shapes(
    model: ModelProto, preprocessing: AnyPreprocessing, values: list[str]
) -> list[tuple[int, ...]]:
    """Return the shapes of values for one sample, without the batch axis; ONNX Runtime tells."""
    shown = ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(float_value(value) for value in values)
    for output in shown.graph.output:
        output.type.tensor_type.ClearField("shape")
    found = LoadedModel(write(shown)).run(
        {preprocessing.input_name: noise_inputs(preprocessing, 1)}, values
    )
    shapes = [found[value].shape for value in values]
    most = max(4, *input_kind(preprocessing).maps)
    for value, shape in zip(values, shapes, strict=True):
        if not 2 <= len(shape) <= most or found[value].dtype != np.float32:
            raise ModelFileError(
                f"layers: {value!r} is {found[value].dtype} of shape {shape}; name a feature map, "
                "tokens (N, T, width) or a vector (N, width) of float32"
            )
    return shapes


def _with_mirror(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return the model run on a batch and on its mirror images, and the mean of both."""
    source, features = model.graph.input[0].name, model.graph.output[0].name
    (shape,) = _shapes(model, preprocessing, [features])
    if len(shape) != 2:
        raise ModelFileError(
            f"mirror: true, but an image gives an output of shape {shape[1:]}, and only vectors "
            "are averaged; name layers, which are pooled"
        )
    head = GraphBuilder(f"{PREFIX}both/")
    width_axis = 2 if channels_last(preprocessing) else 3
    ends = [
        head.constant(name, [value], np.int64)
        for name, value in (
            *(("start", _FROM_THE_END), ("stop", _TO_THE_START)),
            *(("axis", width_axis), ("step", -1)),
        )
    ]
    both = head.add("Concat", source, head.add("Slice", source, *ends), axis=0)
    for node in model.graph.node:
        node.input[:] = [both if name == source else name for name in node.input]
    tail = _Tail(f"{PREFIX}mean/", opset=opset_of(model))
    target = tail.constant("views", [2, -1, shape[1]], np.int64)
    mean = tail.mean(tail.add("Reshape", features, target), 0, keepdims=0)
    nodes = [*head.nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(head.constants)
    return _ending_in(model, tail, mean)


def _ending_in(model: ModelProto, tail: GraphBuilder, output: str) -> ModelProto:
    """Return the model with `tail` and the one output; without what that does not need."""
    graph = model.graph
    graph.node.extend(tail.nodes)
    graph.initializer.extend(tail.constants)
    needed = Cutting(graph).before(output)
    nodes, constants = list(needed.nodes), list(needed.constants)
    result = ModelProto()
    result.CopyFrom(model)
    for field, kept in ((result.graph.node, nodes), (result.graph.initializer, constants)):
        del field[:]
        field.extend(kept)
    del result.graph.output[:]
    result.graph.output.append(float_value(output, BATCH, "width"))
    return result


class _Tail(GraphBuilder):
    """The nodes after the network."""

    def __init__(self, prefix: str, opset: int) -> None:
        super().__init__(prefix)
        self._opset = opset

    def pooled(self, value: str, rank: int, preprocessing: AnyPreprocessing) -> str:
        """Return the mean (N, width) over the pixels of a map, or over tokens (N, T, width).

        A map of three axes is (N, width, time) where a network reads arrays.
        """
        if rank == 2:
            return value
        if rank == 3 and rank not in input_kind(preprocessing).maps:
            return self.mean(value, 1, keepdims=0)
        if channels_last(preprocessing):
            value = self.add("Transpose", value, perm=[0, 3, 1, 2])
        return self.add("Flatten", self.add("GlobalAveragePool", value), axis=1)

    def scaled(self, vector: str) -> str:
        """Return a vector divided by the root of its mean square; zeros stay zeros."""
        size = self.add("Sqrt", self.mean(self.add("Mul", vector, vector), 1, keepdims=1))
        number = len(self.nodes)
        zero = self.constant(f"zero_{number}", [0], np.float32)
        one = self.constant(f"one_{number}", [1], np.float32)
        divisor = self.add("Where", self.add("Equal", size, zero), one, size)
        return self.add("Div", vector, divisor)

    def mean(self, value: str, axis: int, *, keepdims: int) -> str:
        """Return the mean over one axis."""
        if self._opset < _AXES_ARE_INPUTS:
            return self.add("ReduceMean", value, axes=[axis], keepdims=keepdims)
        axes = self.constant(f"axes_{len(self.nodes)}", [axis], np.int64)
        return self.add("ReduceMean", value, axes, keepdims=keepdims)
