"""Parts of an ONNX file that are kept while it is read, and its graph for the growth check."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import islice
from math import prod

from fleetledger.learning.numerics.graph_growth import Graph
from fleetledger.learning.numerics.graph_values import MAX_FOLLOWED, Node, Tensor
from fleetledger.learning.onnx_files.tensor_sizes import MAX_RANK
from fleetledger.learning.onnx_files.wire import VARINT, Octets, Wire, signed

_FORMATS = {1: "f", 6: "i", 7: "q", 11: "d"}
"""Types of ONNX that sizes and scales have, as `struct` writes them."""
_VARINTS = frozenset({"int32_data", "int64_data"})


@dataclass
class OnnxMessage:
    """What the rules keep of a message."""

    graphs: int
    """Graphs around it."""
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    inside: dict[str, list[OnnxMessage]] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    """Entries of a tensor's data, by field."""
    spans: list[tuple[str, int, int, int]] = field(default_factory=list)
    """The first places where that data lies: field, wire type, begin and end."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """What a node takes and makes, in their order."""
    floats: list[float] = field(default_factory=list)
    """Of an attribute."""
    graph: Graph = field(default_factory=Graph)
    """Of a graph: what its growth depends on."""
    seen: set[str] = field(default_factory=set)

    def number(self, name: str) -> int:
        """Return the last number of a field, or 0."""
        return self.numbers.get(name, [0])[-1]

    def take_attribute(self, name: str, wire: Wire, raw: tuple[int, int, int]) -> None:
        """Keep the first numbers of an attribute: sizes have one for each axis."""
        kind, first, last = raw
        kept = self.numbers.setdefault(name, [])
        room = MAX_FOLLOWED + 1 - len(kept)
        values = [first] if kind == VARINT else islice(wire.numbers(first, last), max(room, 0))
        kept += [signed(value) for value in values if room > 0]

    def take_floats(self, data: Octets, raw: tuple[int, int, int]) -> None:
        """Keep the first floats of an attribute."""
        _, first, last = raw
        last = min(last, first + 4 * max(MAX_FOLLOWED + 1 - len(self.floats), 0))
        self.floats += _unpacked("f", data, first, last)


def note_in_graph(graph: Graph, kind: str, inner: OnnxMessage, wire: Wire) -> None:
    """Keep of a graph's part what the graph's growth depends on."""
    name = inner.texts.get("name", "")
    match kind:
        case "node":
            graph.nodes.append(_node(inner, wire))
        case "initializer":
            graph.constants[name] = _tensor(inner, wire)
        case "input":
            graph.inputs += (name,)
        case "output":
            graph.outputs += (name,)


def _node(node: OnnxMessage, wire: Wire) -> Node[Graph]:
    made: Node[Graph] = Node(
        node.texts.get("op_type", ""),
        tuple(node.names.get("input", ())),
        tuple(node.names.get("output", ())),
    )
    for attribute in node.inside.get("attribute", ()):
        name = attribute.texts.get("name", "")
        numbers = [*attribute.numbers.get("i", ()), *attribute.numbers.get("ints", ())]
        if 0 < len(numbers) <= MAX_FOLLOWED:
            made.numbers[name] = tuple(numbers)
        if 0 < len(attribute.floats) <= MAX_FOLLOWED:
            made.floats[name] = tuple(attribute.floats)
        for tensor in attribute.inside.get("t", ()):
            made.tensors[name] = _tensor(tensor, wire)
        inside = (*attribute.inside.get("g", ()), *attribute.inside.get("graphs", ()))
        made.graphs += tuple(item.graph for item in inside)
    return made


def _tensor(tensor: OnnxMessage, wire: Wire) -> Tensor:
    dims = tuple(tensor.numbers.get("dims", ())[:MAX_RANK])
    form = _FORMATS.get(tensor.number("data_type"))
    if form is None or prod(dims) > MAX_FOLLOWED:
        return Tensor(dims)
    values: list[float] = []
    for name, kind, first, last in tensor.spans:
        if name in _VARINTS:
            found = [first] if kind == VARINT else list(wire.numbers(first, last))
            values += [signed(value) for value in found]
        else:
            values += _unpacked(form, wire.data, first, last)
    return Tensor(dims, tuple(values))


def _unpacked(form: str, data: Octets, first: int, last: int) -> list[float]:
    count = (last - first) // struct.calcsize("<" + form)
    return list(struct.unpack_from(f"<{count}{form}", data[first:last])) if count else []
