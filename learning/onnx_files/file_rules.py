"""The rules for an ONNX file that arrives, held to by reading it without ONNX.

- one file of at most 512 MiB, a whole protobuf message of fields that are known, each given once
  where there can be one of it;
- no data in other files: no `external_data`, no `data_location` but the default;
- operators of the standard domain only, unless the owner allows a domain by name; no `EPContext`;
- no local functions, no training information, no settings of devices;
- at most 20,000 nodes, graphs nested at most 8 deep, a million fields;
- every tensor holds exactly what its type and shape declare, and no shape declares more than 2^28
  numbers;
- no operator that makes more than 2^28 numbers or runs too often, by its constants and shapes
  (`learning.numerics.graph_growth`). What else it makes is for the trial (`models.trial` there).
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetledger.learning.errors import GraphFileError, GraphGrowthError
from fleetledger.learning.numerics.graph_growth import least_sizes
from fleetledger.learning.numerics.graph_values import MAX_FOLLOWED
from fleetledger.learning.onnx_files.messages import MESSAGES, Field
from fleetledger.learning.onnx_files.onnx_message import OnnxMessage, note_in_graph
from fleetledger.learning.onnx_files.tensor_sizes import (
    MAX_RANK,
    check_stored,
    numbers_of,
    varints_in,
)
from fleetledger.learning.onnx_files.wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Octets,
    Wire,
    signed,
)

STANDARD_DOMAINS = frozenset({"", "ai.onnx"})
MAX_MODEL_BYTES = 512 * 1024**2
MAX_NODES = 20_000
MAX_NESTING = 8
MAX_FIELDS = 1_000_000
MAX_DEPTH = 40
"""Messages inside each other: eight graphs take 25, the rest is for types."""
_FUNCTIONS = 25
"""Number of a model's field that holds them."""
_LONGEST_NAME = 4096
_WIDTHS = {FIXED32: 4, FIXED64: 8}
_DATA = ("raw_data", "float_data", "int32_data", "string_data", "int64_data")
_COUNTED = frozenset({*_DATA, "double_data", "uint64_data"})
_KEPT = frozenset({"name", "op_type", "domain", "dim_param"})
"""Texts that a rule looks at."""
_NAMES = frozenset({"input", "output"})
_MOST_NAMES = 32 * 1024**2
"""Bytes of all names that nodes call values by."""


@dataclass(frozen=True)
class OnnxValue:
    """An input or output that a graph declares."""

    name: str
    element: int
    """The type's number in ONNX; 1 is float32, 7 int64, 0 no tensor."""
    axes: tuple[int | None, ...] | None
    """None for an axis that is free; None at all where no shape is declared."""


@dataclass(frozen=True)
class OnnxFile:
    """What a file declares that keeps to the rules."""

    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]
    nodes: int


def read_onnx_file(path: Path, domains: frozenset[str] = frozenset()) -> OnnxFile:
    """Hold a file to the rules, and return what it declares; raise `GraphFileError` in words.

    Only the pages that are looked at are read, so weights stay on the disk.
    """
    size = path.stat().st_size
    if not 0 < size <= MAX_MODEL_BYTES:
        raise GraphFileError(f"{size} bytes; a model has 1 to {MAX_MODEL_BYTES}")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return read_onnx(data, domains)


def read_onnx(
    data: Octets, domains: frozenset[str] = frozenset(), *, exported: bool = True
) -> OnnxFile:
    """As `read_onnx_file`, for bytes.

    Of a file that is not `exported` for devices yet, imports of domains that no operator uses and
    free axes that are written as -1 are let through: the export leaves both out.
    """
    if not 0 < len(data) <= MAX_MODEL_BYTES:
        raise GraphFileError(f"{len(data)} bytes; a model has 1 to {MAX_MODEL_BYTES}")
    return _Reader(data, STANDARD_DOMAINS | domains, exported=exported).read()


def has_functions(data: Octets) -> bool:
    """Return whether a file has local functions; raise `GraphFileError` if it is no ONNX file."""
    return any(number == _FUNCTIONS for number, *_ in Wire(data, MAX_FIELDS).fields(0, len(data)))


class _Reader:
    def __init__(self, data: Octets, domains: frozenset[str], *, exported: bool) -> None:
        self._wire = Wire(data, MAX_FIELDS)
        self._domains = domains
        self._nodes = 0
        self._named = 0
        self._rules: dict[str, Callable[[OnnxMessage], None]] = {
            "node": self._check_node,
            "tensor": _check_tensor,
        }
        if exported:
            self._rules |= {"opset": self._check_domain, "shape": _check_shape}

    def read(self) -> OnnxFile:
        model = self._message("model", 0, len(self._wire.data), OnnxMessage(0), 0)
        (graph,) = model.inside.get("graph") or [OnnxMessage(0)]
        if not model.number("ir_version") or not self._nodes:
            raise GraphFileError("is no ONNX model: it has no version or no nodes")
        values = {
            side: tuple(_value(item) for item in graph.inside.get(side, ()))
            for side in ("input", "output")
        }
        shapes = {value.name: value.axes for value in values["input"] if value.axes is not None}
        try:
            least_sizes(graph.graph, shapes)
        except GraphGrowthError as error:
            raise GraphFileError(str(error)) from error
        return OnnxFile(values["input"], values["output"], self._nodes)

    def _message(
        self, kind: str, begin: int, end: int, into: OnnxMessage, depth: int
    ) -> OnnxMessage:
        if depth > MAX_DEPTH:
            raise GraphFileError(f"messages nest deeper than {MAX_DEPTH}")
        table = MESSAGES[kind]
        for number, wire, first, last in self._wire.fields(begin, end):
            known = table.get(number)
            if known is None:
                raise GraphFileError(f"a {kind} has the unknown field {number}")
            self._take(kind, known, (wire, first, last), into, depth)
        rule = self._rules.get(kind)
        if rule is not None:
            rule(into)
        return into

    def _take(
        self, kind: str, known: Field, raw: tuple[int, int, int], into: OnnxMessage, depth: int
    ) -> None:
        wire, first, last = raw
        _check_field(kind, known, wire, into)
        if known.message:
            self._inside(kind, known, (first, last), into, depth)
        elif known.name in _COUNTED:
            count = self._entries(known, raw)
            into.stored[known.name] = into.stored.get(known.name, 0) + count
            if count > 0 and len(into.spans) <= MAX_FOLLOWED:
                into.spans.append((known.name, *raw))
        elif known.wire == VARINT:
            self._take_numbers(kind, known, raw, into)
        elif known.name in _KEPT:
            into.texts[known.name] = self._wire.text(first, last, _LONGEST_NAME)
        elif kind == "node" and known.name in _NAMES:
            self._named += last - first
            if self._named > _MOST_NAMES:
                raise GraphFileError(f"names of values take more than {_MOST_NAMES} bytes")
            name = self._wire.text(first, last, _LONGEST_NAME)
            into.names.setdefault(known.name, []).append(sys.intern(name))
        elif known.wire == FIXED32 and kind == "attribute":
            into.take_floats(self._wire.data, raw)

    def _inside(
        self, kind: str, known: Field, span: tuple[int, int], into: OnnxMessage, depth: int
    ) -> None:
        graphs = into.graphs + (known.message == "graph")
        if graphs > MAX_NESTING + 1:
            raise GraphFileError(f"graphs nest deeper than {MAX_NESTING}; export it without loops")
        inner = self._message(known.message, *span, OnnxMessage(graphs), depth + 1)
        # Of nodes and weights little is kept: there may be many.
        if kind == "graph":
            note_in_graph(into.graph, known.name, inner, self._wire)
        if kind != "graph" or (known.name in _NAMES and into.graphs == 1):
            into.inside.setdefault(known.name, []).append(inner)

    def _take_numbers(
        self, kind: str, known: Field, raw: tuple[int, int, int], into: OnnxMessage
    ) -> None:
        wire, first, last = raw
        if kind == "attribute":
            into.take_attribute(known.name, self._wire, raw)
            return
        values = [first] if wire == VARINT else list(self._wire.numbers(first, last))
        kept = into.numbers.setdefault(known.name, [])
        kept += [signed(value) for value in values]
        if len(kept) > MAX_RANK:
            raise GraphFileError(
                f"a {kind} has {len(kept)} {known.name}; at most {MAX_RANK} are read"
            )

    def _entries(self, known: Field, raw: tuple[int, int, int]) -> int:
        """Return how many entries of a tensor's data a field holds; of raw data, how many bytes."""
        wire, first, last = raw
        if known.name == "raw_data":
            return last - first
        if wire != LENGTH or known.wire == LENGTH:
            return 1
        if known.wire == VARINT:
            return varints_in(self._wire.data, first, last)
        if (last - first) % _WIDTHS[known.wire]:
            raise GraphFileError(f"{known.name} ends in the middle of a number")
        return (last - first) // _WIDTHS[known.wire]

    def _check_node(self, node: OnnxMessage) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise GraphFileError(f"more than {MAX_NODES} nodes; export a smaller network")
        operator = node.texts.get("op_type", "")
        if operator == "EPContext":
            raise GraphFileError(
                "operator 'EPContext' holds a program of a device; export without it"
            )
        self._check_domain(node, f"operator {operator!r} of ")

    def _check_domain(self, item: OnnxMessage, what: str = "operators of ") -> None:
        domain = item.texts.get("domain", "")
        if domain not in self._domains:
            raise GraphFileError(
                f"{what}domain {domain!r}; export with standard ONNX operators only, or allow the "
                "domain by name: --domain of `model import`, and [model] domains in agent.toml"
            )


def _check_field(kind: str, known: Field, wire: int, into: OnnxMessage) -> None:
    if known.banned:
        raise GraphFileError(f"holds {known.banned}")
    packed = known.repeated and wire == LENGTH
    if wire != known.wire and not packed:
        raise GraphFileError(
            f"field {known.name} of a {kind} is of wire type {wire}, not {known.wire}"
        )
    if known.name in into.seen and not known.repeated:
        raise GraphFileError(f"field {known.name} of a {kind} stands twice")
    into.seen.add(known.name)


def _check_tensor(tensor: OnnxMessage) -> None:
    name = tensor.texts.get("name", "")
    if tensor.number("data_location"):
        raise GraphFileError(f"tensor {name!r} lies in another file; save the model as one file")
    check_stored(name, tensor.number("data_type"), tensor.numbers.get("dims", []), tensor.stored)


def _check_shape(shape: OnnxMessage) -> None:
    axes = shape.inside.get("dim", [])
    numbers_of([axis.number("dim_value") for axis in axes if "dim_value" in axis.numbers])


def _value(item: OnnxMessage) -> OnnxValue:
    types: list[Any] = item.inside.get("type", [])
    tensors = types[0].inside.get("tensor_type", []) if types else []
    if not tensors:
        return OnnxValue(item.texts.get("name", ""), 0, None)
    shapes = tensors[0].inside.get("shape", [])
    axes = tuple(_axis(axis) for axis in shapes[0].inside.get("dim", [])) if shapes else None
    return OnnxValue(item.texts.get("name", ""), tensors[0].number("elem_type"), axes)


def _axis(axis: OnnxMessage) -> int | None:
    """Return the length of an axis; None of a free one, which some write as -1."""
    length = axis.number("dim_value") if "dim_value" in axis.numbers else -1
    return None if length < 0 else length
