"""Layers of dense networks as ONNX nodes, by their formulas; `DenseLayers` in a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from export.onnx_layers import OnnxLayers, Value
from learning.networks.segmentation.layers import Curve


class OnnxDenseLayers(OnnxLayers):
    """`learning.networks.segmentation.layers.DenseLayers` over names of tensors in a graph."""

    def curve(self, kind: Curve, values: Value) -> Value:
        """Return a function of each number."""
        if kind == "none":
            return values
        if kind == "relu":
            return self.relu(values)
        if kind == "relu6":
            ends = (self._number(0.0), self._number(6.0))
            return Value(self._graph.add("Clip", values.name, *ends), values.axes)
        if kind == "sigmoid":
            return Value(self._graph.add("Sigmoid", values.name), values.axes)
        if kind == "hard_swish":
            return Value(self._graph.add("HardSwish", values.name), values.axes)
        gate = self._graph.add("HardSigmoid", values.name, alpha=1 / 6, beta=0.5)
        return Value(gate, values.axes)

    def multiply(self, maps: Value, factors: Value) -> Value:
        """Return maps times factors."""
        return Value(self._graph.add("Mul", maps.name, factors.name), 4)

    def pixel_mean(self, values: Value) -> Value:
        """Return the mean over all pixels, (n, c, 1, 1)."""
        return Value(self._graph.add("GlobalAveragePool", values.name), 4)

    def concatenate(self, maps: Sequence[Value]) -> Value:
        """Return the channels of maps of one size, one after another."""
        return Value(self._graph.add("Concat", *(each.name for each in maps), axis=1), 4)

    def resize(self, values: Value, like: Value) -> Value:
        """Return maps in the height and width of `like`."""
        # ONNX Runtime folds the shapes: all but the batch is known from the input.
        kept = self._graph.add("Shape", values.name, start=0, end=2)
        wanted = self._graph.add("Shape", like.name, start=2, end=4)
        return self._resized(values, self._graph.add("Concat", kept, wanted, axis=0))

    def resize_to(self, values: Value, size: tuple[int, int]) -> Value:
        """Return maps (n, c, *size)."""
        kept = self._graph.add("Shape", values.name, start=0, end=2)
        wanted = self._constant(f"size_{size[0]}_{size[1]}", size, np.int64)
        return self._resized(values, self._graph.add("Concat", kept, wanted, axis=0))

    def _resized(self, values: Value, shape: str) -> Value:
        resized = self._graph.add(
            "Resize",
            values.name,
            "",
            "",
            shape,
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )
        return Value(resized, 4)
