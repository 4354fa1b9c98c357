"""Cuts an ONNX graph at a value into two: what comes before it, and what is made of it alone.

Both halves get names by the order of their nodes, so that two files of one network give the same
bytes for the half that they share, whatever their exporters called its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import nested_graphs

VALUES = "value/"
"""Prefix of every name that the halves have inside."""
WITH_WEIGHTS = frozenset({"Gemm", "MatMul", "Conv", "ConvTranspose"})
"""Operators that classify features, where their weights are constant."""


@dataclass(frozen=True)
class Half:
    """Nodes in an order in which they can run, and the constants that they read."""

    nodes: tuple[NodeProto, ...]
    constants: tuple[TensorProto, ...]

    @property
    def numbers(self) -> int:
        """How many numbers the constants hold."""
        return sum(math.prod(tensor.dims) for tensor in self.constants)

    def named(self, given: Mapping[str, str]) -> GraphProto:
        """Return a graph without inputs and outputs whose values are named in order.

        `given` has the new names of some by their old ones.
        """
        graph = GraphProto()
        graph.node.extend(self.nodes)
        graph.initializer.extend(_plain(tensor) for tensor in self.constants)
        _name_in_order(graph, dict(given))
        return graph


class Cutting:
    """A graph with one input, to be cut."""

    def __init__(self, graph: GraphProto) -> None:
        self.source = graph.input[0].name
        self._nodes = tuple(graph.node)
        self._constants = tuple(graph.initializer)
        self._reads = [reads(node) for node in self._nodes]
        self._makers = {
            name: place for place, node in enumerate(self._nodes) for name in node.output if name
        }
        self._varies = self._all_that_varies()

    def value(self, name: str) -> str:
        """Return the value that a name means: its own, or what the node of that name puts out.

        Raises `ModelFileError` for one that does not depend on the input.
        """
        nodes = {node.name: node.output[0] for node in self._nodes if node.name}
        found = name if name in self._varies else nodes.get(name, "")
        if found not in self._varies:
            raise ModelFileError(
                f"split: {name!r} is no value or node of the model that depends on its input; the "
                f"last ones are {', '.join(self._last(8))}"
            )
        return found

    def layer(self, name: str) -> str:
        """Return the value that a layer's name means: a value, a node, or a module of torch.

        A module's is the last value made in it; torch's exporter tells modules by the names of
        nodes, such as `/features/features.14/conv/conv.1/conv.1.2/Clip` of `features.14.conv.1`.
        Raises `ModelFileError` for one that does not depend on the input.
        """
        inside = [node for node in self._nodes if f"{_module(node.name)}.".startswith(f"{name}.")]
        made = [node.output[0] for node in inside if node.output[0] in self._varies]
        if made and name not in self._varies:
            return str(made[-1])
        try:
            return self.value(name)
        except ModelFileError as error:
            raise ModelFileError(str(error).replace("split:", "layers:", 1)) from error

    def before(self, value: str) -> Half:
        """Return what a value is made by."""
        return self._half(value, "")

    def after(self, value: str, output: str) -> Half:
        """Return what makes `output` of a value; raise `ModelFileError` where that takes more."""
        half = self._half(output, value)
        if value != self.source and any(self.source in reads(node) for node in half.nodes):
            near = next((repr(name) for name in self.cuts(output)), "none: leave --split out")
            raise ModelFileError(
                f"split: the output sees the input by another way than {value!r}, so the model "
                f"cannot be cut there; where it can: {near}"
            )
        return half

    def cuts(self, output: str) -> Iterator[str]:
        """Yield what layers with weights read after which nothing else is seen, last first."""
        for node in reversed(self._half(output, "").nodes):
            seen = [name for name in node.input if name in self._varies]
            if node.op_type not in WITH_WEIGHTS or len(seen) != 1 or seen[0] == self.source:
                continue
            if self._is_cut(seen[0], output):
                yield seen[0]

    def has_small_end(self, value: str, output: str) -> bool:
        """Return whether a layer alone, or less than half of all numbers, lies behind a value."""
        before, after = self.before(value), self.after(value, output)
        layers = [node for node in after.nodes if node.op_type in WITH_WEIGHTS]
        return len(layers) <= 1 or after.numbers <= before.numbers

    def maker(self, value: str) -> NodeProto | None:
        """Return the node that makes a value; None of the input."""
        place = self._makers.get(value)
        return None if place is None else self._nodes[place]

    def _is_cut(self, value: str, output: str) -> bool:
        """Whether `output` is made of this value alone."""
        half = self._half(output, value)
        return value == self.source or not any(self.source in reads(node) for node in half.nodes)

    def _last(self, count: int) -> list[str]:
        names = [name for node in self._nodes for name in node.output if name in self._varies]
        return [repr(name) for name in names[-count:]]

    def _all_that_varies(self) -> set[str]:
        """Return the names of all that depends on the input, the input among them."""
        found = {self.source}
        for place, node in enumerate(self._nodes):  # a checked graph is in order
            if found & self._reads[place]:
                found.update(name for name in node.output if name)
        return found

    def _half(self, wanted: str, given: str) -> Half:
        """Return what makes the value `wanted`; of `given` it is not asked what makes it."""
        needed: set[int] = set()
        waiting = [] if wanted == given else [wanted]
        while waiting:
            place = self._makers.get(waiting.pop())
            if place is not None and place not in needed:
                needed.add(place)
                waiting.extend(self._reads[place] - {given})
        read = frozenset[str]().union(*(self._reads[place] for place in needed))
        nodes = tuple(self._nodes[place] for place in sorted(needed))
        return Half(nodes, tuple(tensor for tensor in self._constants if tensor.name in read))


def _module(node: str) -> str:
    """Return the dotted path of the module that a node of torch's exporter was called in."""
    path: list[str] = []
    for part in node.split("/")[1:-1]:
        nested = bool(path) and part.startswith(f"{path[-1]}.")
        path[-1:] = [part] if nested else [*path[-1:], part]
    return ".".join(path)


def reads(node: NodeProto) -> frozenset[str]:
    """Return the names that a node and the graphs inside it read from outside."""
    read, made = {name for name in node.input if name}, set()
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for part in nested_graphs(inner):
                made |= {tensor.name for tensor in part.initializer}
                made |= {value.name for value in part.input}
                read |= {value.name for value in part.output}
                for child in part.node:
                    read |= {name for name in child.input if name}
                    made |= {name for name in child.output if name}
    return frozenset(read - made)


def _plain(tensor: TensorProto) -> TensorProto:
    """Return a constant as every exporter could have written it: its numbers as raw bytes."""
    if tensor.HasField("raw_data") or tensor.data_type == TensorProto.STRING:
        copy = TensorProto()
        copy.CopyFrom(tensor)
        return copy
    return numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)


def _name_in_order(graph: GraphProto, names: dict[str, str]) -> None:
    """Name every value of a graph in order; `names` has the new ones that are given."""

    def named(name: str) -> str:
        return names.setdefault(name, f"{VALUES}{len(names)}") if name else name

    for part in nested_graphs(graph):
        for value in part.input:
            value.name = named(value.name)
        for node in part.node:
            node.name = ""
            node.input[:] = [named(name) for name in node.input]
            node.output[:] = [named(name) for name in node.output]
        for value in part.output:
            value.name = named(value.name)
        for tensor in part.initializer:
            tensor.name = named(tensor.name)
    order = {name: place for place, name in enumerate(names.values())}
    placed = sorted(graph.initializer, key=lambda tensor: order[tensor.name])
    del graph.initializer[:]
    graph.initializer.extend(placed)
