"""The two files of somebody's own network, cut at a value: `frozen.onnx` and `head.onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, helper

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.cut import VALUES, Half
from fleetledger.export.graph import BATCH, IR_VERSION, nodes_of, opset_of, write
from fleetledger.export.meaning import Meaning
from fleetledger.export.rules import check
from fleetledger.schemas.models import FEATURES, MAX_FEATURES, PROBABILITIES, SCORES, SMALL_SCORES

_FEATURES, _SCORES = VALUES + "features", VALUES + "scores"
_SMALL_SIDE = 64
"""Pixels along a side of small scores that are taken of large ones."""


@dataclass(frozen=True)
class CutValue:
    """The value that a network is cut at: its name, and its axes behind the samples."""

    name: str
    axes: tuple[int, ...]

    @property
    def features(self) -> tuple[int, ...]:
        """Axes of the features that stand for it; an axis more where its first is too long."""
        return self.axes if self.axes[0] <= MAX_FEATURES else (1, *self.axes)


@dataclass(frozen=True)
class OwnFiles:
    """Writes the halves of a network; equal networks give equal files."""

    model: ModelProto
    """Where they come from: operators' versions, and allowed domains."""
    domains: frozenset[str]
    meaning: Meaning | None = None
    """What the value is that heads end with; None of a raw output."""

    def frozen(self, half: Half, source: str, cut: CutValue, *, in_a_row: bool) -> bytes:
        """Return `frozen.onnx`; features are put `in_a_row` where they are of whole samples."""
        tail = GraphBuilder(VALUES)
        before = source if cut.name == source else _FEATURES
        flat = in_a_row and len(cut.axes) > 1
        if not flat and cut.features != cut.axes:
            shape = tail.constant("shape", [-1, *cut.features], np.int64)
            tail.add("Reshape", before, shape, output=FEATURES)
        else:
            tail.add("Flatten" if flat else "Identity", before, output=FEATURES)
        axes = (int(np.prod(cut.axes)),) if flat else cut.features
        graph = half.named({source: source, cut.name: before})
        graph.input.append(self.model.graph.input[0])
        graph.output.append(float_value(FEATURES, BATCH, *axes))
        return self._written(graph, GraphBuilder(), tail)

    def scores(
        self, half: Half, cut: CutValue, output: str, axes: Sequence[int], classes: int
    ) -> bytes:
        """Return a head of whole samples: scores (N, classes) of an output with these axes."""
        first, last = GraphBuilder(VALUES + "first/"), GraphBuilder(VALUES + "last/")
        before = FEATURES
        if len(cut.axes) > 1:
            shape = first.constant("shape", [-1, *cut.axes], np.int64)
            before = first.add("Reshape", FEATURES, shape, output=_FEATURES)
        after = before if output == cut.name else _SCORES
        row = last.add("Flatten", after) if len(axes) > 1 else after
        last.add("Identity", self._scores_of(last, row), output=SCORES)
        last.add("Softmax", SCORES, output=PROBABILITIES, axis=1)
        graph = half.named({cut.name: before, output: after})
        graph.input.append(float_value(FEATURES, BATCH, int(np.prod(cut.axes))))
        graph.output.append(float_value(SCORES, BATCH, classes))
        graph.output.append(float_value(PROBABILITIES, BATCH, classes))
        return self._written(graph, first, last)

    def pixels(
        self, half: Half, cut: CutValue, output: str, axes: Sequence[int], size: tuple[int, int]
    ) -> bytes:
        """Return a head of pixels: scores of pictures of `size`, of an output with these axes.

        An output of that size is the scores, and every few of its pixels the small ones; a smaller
        one is the small scores, and enlarged by whole numbers the scores.
        """
        last = GraphBuilder(VALUES + "last/")
        rows, *given = axes
        classes = 2 * rows if self.meaning is not None and self.meaning.single else rows
        end = FEATURES if output == cut.name else _SCORES
        after = self._scores_of(last, end)
        step = max(1, -(-max(size) // _SMALL_SIDE)) if tuple(given) == size else 1
        if tuple(given) == size:
            ends = ((0, 0), size, (2, 3), (step, step))
            parts = [last.constant(f"slice_{k}", end, np.int64) for k, end in enumerate(ends)]
            last.add("Slice", after, *parts, output=SMALL_SCORES)
            last.add("Identity", after, output=SCORES)
        else:
            last.add("Identity", after, output=SMALL_SCORES)
            by = [1.0, 1.0, size[0] / given[0], size[1] / given[1]]
            scales = last.constant("scales", by, np.float32)
            nothing = last.constant("nothing", [], np.float32)
            last.add("Resize", after, nothing, scales, output=SCORES, mode="linear")
        graph = half.named({cut.name: FEATURES, output: end})
        graph.input.append(float_value(FEATURES, BATCH, *cut.axes))
        graph.output.append(float_value(SCORES, BATCH, classes, *size))
        small = [-(-side // step) for side in given]
        graph.output.append(float_value(SMALL_SCORES, BATCH, classes, *small))
        return self._written(graph, GraphBuilder(), last)

    def raw(self, half: Half, cut: CutValue, output: str, axes: Sequence[int]) -> bytes:
        """Return a head whose scores are an output with these axes, as it is."""
        first, last = GraphBuilder(VALUES + "first/"), GraphBuilder(VALUES + "last/")
        before = FEATURES
        if cut.features != cut.axes:
            shape = first.constant("shape", [-1, *cut.axes], np.int64)
            before = first.add("Reshape", FEATURES, shape, output=_FEATURES)
        after = before if output == cut.name else _SCORES
        last.add("Identity", after, output=SCORES)
        graph = half.named({cut.name: before, output: after})
        graph.input.append(float_value(FEATURES, BATCH, *cut.features))
        graph.output.append(float_value(SCORES, BATCH, *axes))
        return self._written(graph, first, last)

    def _scores_of(self, last: GraphBuilder, value: str) -> str:
        """Return the scores (N, C, ...) that a value of the network's end means."""
        meaning = self.meaning
        if meaning is None or meaning.reading == "scores":
            return value
        if meaning.reading == "margin":
            half = last.constant("half", [0.5], np.float32)
            second = last.add("Mul", value, half)
            return last.add("Concat", last.add("Neg", second), second, axis=1)
        floor = last.constant("floor", [meaning.floor * meaning.whole], np.float32)
        if meaning.reading == "share":
            rest = last.add("Sub", last.constant("one", [1], np.float32), value)
            value = last.add("Concat", rest, value, axis=1)
        return last.add("Log", last.add("Max", value, floor))

    def _written(self, graph: GraphProto, first: GraphBuilder, last: GraphBuilder) -> bytes:
        """Return a file of a graph with the nodes of two builders around its own."""
        between = list(graph.node)
        del graph.node[:]
        graph.node.extend([*first.nodes, *between, *last.nodes])
        graph.initializer.extend([*first.constants, *last.constants])
        graph.name = "graph"
        used = {node.domain for node in nodes_of(graph)} - {"", "ai.onnx"}
        versions = {entry.domain: entry.version for entry in self.model.opset_import}
        imports = [helper.make_opsetid("", opset_of(self.model))]
        imports += [helper.make_opsetid(domain, versions[domain]) for domain in sorted(used)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        model.ClearField("producer_name")
        data = write(model)
        check(data, self.domains)
        return data
