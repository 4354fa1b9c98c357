"""Layers of networks as ONNX nodes, by their formulas; `learning.networks.body.Layers` in a graph.

Everything is as in use: dropout does nothing, normalisation follows the running statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.builder import GraphBuilder
from fleetledger.learning.networks.body import EPSILON, MOMENTUM
from fleetledger.learning.networks.module_source import ModuleSource

Arrays = Mapping[str, npt.NDArray[Any]]

_TOKEN_EPSILON = 1e-6
"""Added to variances of tokens, as `learning.networks.torch_tokens` does."""


@dataclass(frozen=True)
class GraphValue:
    """A tensor in the graph, with its number of axes."""

    name: str
    axes: int


class OnnxLayers:
    """`learning.networks.body.Layers` over names of tensors in a graph."""

    def __init__(self, graph: GraphBuilder, arrays: Arrays) -> None:
        self._graph = graph
        self._arrays = arrays
        self._known: dict[str, str] = {}

    def rows(self, values: GraphValue, axes: int) -> GraphValue:
        """Return each sample's values as one row."""
        if axes == 1:
            return values
        return GraphValue(self._graph.add("Flatten", values.name, axis=1), 2)

    def linear(self, name: str, values: GraphValue) -> GraphValue:
        """Return x W^T + b, of rows or of tokens."""
        if values.axes == 3:
            return self._linear_of_tokens(name, values)
        inputs = [values.name, self._tensor(f"{name}.weight")]
        if f"{name}.bias" in self._arrays:
            inputs.append(self._tensor(f"{name}.bias"))
        return GraphValue(self._graph.add("Gemm", *inputs, transB=1), 2)

    def project(self, values: GraphValue, matrix: npt.NDArray[np.float32]) -> GraphValue:
        """Return M x of rows."""
        fixed = self._constant("projection", matrix, np.float32)
        return GraphValue(self._graph.add("Gemm", values.name, fixed, transB=1), 2)

    def standardise(self, centre: str, spread: str, values: GraphValue) -> GraphValue:
        """Return (x - centre) / spread of rows."""
        moved = self._graph.add("Sub", values.name, self._tensor(centre))
        return GraphValue(self._graph.add("Div", moved, self._tensor(spread)), values.axes)

    def convolution(
        self, name: str, values: GraphValue, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> GraphValue:
        """Return the convolution, padded by half the kernel's span."""
        padding = self._arrays[f"{name}.weight"].shape[-1] // 2 * dilation
        inputs = [values.name, self._tensor(f"{name}.weight")]
        if f"{name}.bias" in self._arrays:
            inputs.append(self._tensor(f"{name}.bias"))
        convolved = self._graph.add(
            "Conv",
            *inputs,
            strides=[stride] * 2,
            pads=[padding] * 4,
            dilations=[dilation] * 2,
            group=groups,
        )
        return GraphValue(convolved, 4)

    def batch_norm(
        self, name: str, values: GraphValue, epsilon: float = EPSILON, momentum: float = MOMENTUM
    ) -> GraphValue:
        """Return the normalisation by the running statistics."""
        del momentum
        parts = ("weight", "bias", "running_mean", "running_var")
        tensors = [self._tensor(f"{name}.{part}") for part in parts]
        normal = self._graph.add("BatchNormalization", values.name, *tensors, epsilon=epsilon)
        return GraphValue(normal, values.axes)

    def dropout(self, values: GraphValue, rate: float, layer: int) -> GraphValue:
        """Return the values as they are: a model in use drops nothing."""
        del rate, layer
        return values

    def relu(self, values: GraphValue) -> GraphValue:
        """Return max(values, 0)."""
        return GraphValue(self._graph.add("Relu", values.name), values.axes)

    def add(self, one: GraphValue, two: GraphValue, name: str = "") -> GraphValue:
        """Return the sum of two maps of one shape."""
        return GraphValue(self._graph.add("Add", one.name, two.name), one.axes)

    def max_pool(self, values: GraphValue, side: int = 2) -> GraphValue:
        """Return the largest of `side` x `side` pixels around every second pixel."""
        pooled = self._graph.add(
            "MaxPool",
            values.name,
            kernel_shape=[side] * 2,
            strides=[2, 2],
            pads=[(side - 1) // 2] * 4,
        )
        return GraphValue(pooled, 4)

    def mean_pool(self, values: GraphValue) -> GraphValue:
        """Return the mean over all pixels."""
        return GraphValue(self._graph.add("ReduceMean", values.name, axes=[2, 3], keepdims=0), 2)

    def patches(self, name: str, values: GraphValue) -> GraphValue:
        """Return one token for each patch of pictures."""
        side = self._arrays[f"{name}.weight"].shape[-1]
        inputs = [self._tensor(f"{name}.{part}") for part in ("weight", "bias")]
        maps = self._graph.add("Conv", values.name, *inputs, strides=[side] * 2)
        rows = self._reshaped(maps, (0, 0, -1))
        return GraphValue(self._graph.add("Transpose", rows, perm=[0, 2, 1]), 3)

    def positions(self, first: str, positions: str, values: GraphValue) -> GraphValue:
        """Return the tensor `first` before all tokens, plus the tensor `positions`."""
        # A token of the batch times zero, so that the batch keeps its free size.
        token = self._graph.add("Gather", values.name, self._integers((0,)), axis=1)
        zeros = self._graph.add("Mul", token, self._number(0.0))
        before = self._graph.add("Add", zeros, self._tensor(first))
        every = self._graph.add("Concat", before, values.name, axis=1)
        return GraphValue(self._graph.add("Add", every, self._tensor(positions)), 3)

    def layer_norm(self, name: str, values: GraphValue) -> GraphValue:
        """Return tokens normalised one by one."""
        inputs = [self._tensor(f"{name}.{part}") for part in ("weight", "bias")]
        normal = self._graph.add(
            "LayerNormalization", values.name, *inputs, axis=-1, epsilon=_TOKEN_EPSILON
        )
        return GraphValue(normal, 3)

    def attention(
        self,
        name: str,
        values: GraphValue,
        heads: int,
        beside: tuple[GraphValue, GraphValue] | None = None,
    ) -> GraphValue:
        """Return what tokens gather from each other."""
        whole = self._product(values, f"{name}.in_proj_weight", f"{name}.in_proj_bias")
        if beside is not None:
            queries, gathered = (part.name for part in beside)
            nothing = self._graph.add("Sub", queries, queries)
            added = self._graph.add("Concat", queries, nothing, gathered, axis=-1)
            whole = self._graph.add("Add", whole, added)
        width = self._arrays[f"{name}.in_proj_weight"].shape[1] // heads
        each = self._reshaped(whole, (0, 0, 3, heads, width))
        each = self._graph.add("Transpose", each, perm=[2, 0, 3, 1, 4])
        queries, keys, gathered = (
            self._graph.add("Squeeze", part, self._integers((0,)))
            for part in (
                self._graph.add("Gather", each, self._integers((number,)), axis=0)
                for number in range(3)
            )
        )
        turned = self._graph.add("Transpose", keys, perm=[0, 1, 3, 2])
        scores = self._graph.add("MatMul", queries, turned)
        scaled = self._graph.add("Mul", scores, self._number(1 / sqrt(width)))
        shares = self._graph.add("Softmax", scaled, axis=-1)
        mixed = self._graph.add("MatMul", shares, gathered)
        mixed = self._graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.linear(f"{name}.out_proj", GraphValue(self._reshaped(mixed, (0, 0, -1)), 3))

    def gelu(self, values: GraphValue) -> GraphValue:
        """Return x times the normal distribution function of x."""
        ratio = self._graph.add("Mul", values.name, self._number(1 / sqrt(2)))
        curve = self._graph.add("Add", self._graph.add("Erf", ratio), self._number(1.0))
        half = self._graph.add("Mul", values.name, self._number(0.5))
        return GraphValue(self._graph.add("Mul", half, curve), values.axes)

    def scale(self, values: GraphValue, factor: float) -> GraphValue:
        """Return the values times a constant."""
        return GraphValue(self._graph.add("Mul", values.name, self._number(factor)), values.axes)

    def first_token(self, values: GraphValue) -> GraphValue:
        """Return the first token of each picture."""
        token = self._graph.add("Gather", values.name, self._integers((0,)), axis=1)
        return GraphValue(self._graph.add("Squeeze", token, self._integers((1,))), 2)

    def module(self, body: ModuleSource, values: GraphValue) -> GraphValue:
        """Return a torch module's features; its nodes are those of torch's exporter."""
        from fleetledger.export.torch_module import add_module  # noqa: PLC0415 - needs torch

        return GraphValue(add_module(self._graph, body, self._arrays, values.name), 2)

    def _linear_of_tokens(self, name: str, values: GraphValue) -> GraphValue:
        return GraphValue(self._product(values, f"{name}.weight", f"{name}.bias"), 3)

    def _product(self, values: GraphValue, weight: str, bias: str) -> str:
        """Return x W^T + b of tokens (n, t, in); without b where there is none."""
        turned = self._constant(f"{weight}.turned", self._arrays[weight].T, np.float32)
        product = self._graph.add("MatMul", values.name, turned)
        if bias not in self._arrays:
            return product
        return self._graph.add("Add", product, self._tensor(bias))

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """Return values in another shape; 0 keeps an axis, -1 takes the rest."""
        return self._graph.add("Reshape", name, self._integers(shape))

    def _integers(self, values: tuple[int, ...]) -> str:
        return self._constant("integers_" + "_".join(map(str, values)), values, np.int64)

    def _number(self, value: float) -> str:
        return self._constant(f"number_{value!r}", value, np.float32)

    def _tensor(self, name: str) -> str:
        return self._constant(name, self._arrays[name], np.float32)

    def _constant(self, name: str, values: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """Add a constant once; return its name."""
        if name not in self._known:
            self._known[name] = self._graph.constant(name, values, dtype)
        return self._known[name]
