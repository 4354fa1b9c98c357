"""Layers of dense networks as ONNX nodes, by their formulas; `DenseLayers` in a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetledger.export.onnx_layers import GraphValue, OnnxLayers
from fleetledger.learning.networks.segmentation.layers import Curve


class OnnxDenseLayers(OnnxLayers):
    """`learning.networks.segmentation.layers.DenseLayers` over names of tensors in a graph."""

    def curve(self, kind: Curve, values: GraphValue) -> GraphValue:
        """Return a function of each number."""
        if kind == "none":
            return values
        if kind == "relu":
            return self.relu(values)
        if kind == "relu6":
            ends = (self._number(0.0), self._number(6.0))
            return GraphValue(self._graph.add("Clip", values.name, *ends), values.axes)
        if kind == "sigmoid":
            return GraphValue(self._graph.add("Sigmoid", values.name), values.axes)
        if kind == "hard_swish":
            return GraphValue(self._graph.add("HardSwish", values.name), values.axes)
        gate = self._graph.add("HardSigmoid", values.name, alpha=1 / 6, beta=0.5)
        return GraphValue(gate, values.axes)

    def multiply(self, maps: GraphValue, factors: GraphValue) -> GraphValue:
        """Return maps times factors."""
        return GraphValue(self._graph.add("Mul", maps.name, factors.name), 4)

    def pixel_mean(self, values: GraphValue) -> GraphValue:
        """Return the mean over all pixels, (n, c, 1, 1)."""
        return GraphValue(self._graph.add("GlobalAveragePool", values.name), 4)

    def concatenate(self, maps: Sequence[GraphValue]) -> GraphValue:
        """Return the channels of maps of one size, one after another."""
        return GraphValue(self._graph.add("Concat", *(each.name for each in maps), axis=1), 4)

    def resize(self, values: GraphValue, like: GraphValue) -> GraphValue:
        """Return maps in the height and width of `like`."""
        # ONNX Runtime folds the shapes: all but the batch is known from the input.
        kept = self._graph.add("Shape", values.name, start=0, end=2)
        wanted = self._graph.add("Shape", like.name, start=2, end=4)
        return self._resized(values, self._graph.add("Concat", kept, wanted, axis=0))

    def resize_to(self, values: GraphValue, size: tuple[int, int]) -> GraphValue:
        """Return maps (n, c, *size)."""
        kept = self._graph.add("Shape", values.name, start=0, end=2)
        wanted = self._constant(f"size_{size[0]}_{size[1]}", size, np.int64)
        return self._resized(values, self._graph.add("Concat", kept, wanted, axis=0))

    def _resized(self, values: GraphValue, shape: str) -> GraphValue:
        resized = self._graph.add(
            "Resize",
            values.name,
            "",
            "",
            shape,
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )
        return GraphValue(resized, 4)
