"""Weights of an ONNX file that lie in files beside it, put into the one file that devices take.

Exporters write them as `external_data` of a tensor (onnx.proto, `TensorProto`): the name of a file,
and where in it the bytes begin and how many they are. They become the tensor's `raw_data`, field by
field in protobuf's wire format, so that no library reads a file before the rules have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.messages import MESSAGES
from fleetledger.learning.onnx_files.wire import FIXED32, FIXED64, LENGTH, VARINT, Octets, Wire

_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_HOLDING = frozenset({"graph", "node", "attribute", "tensor"})
"""Messages that tensors lie in."""
_MAX_FIELDS = 1_000_000
_MAX_DEPTH = 40
_LONGEST_TEXT = 4096


class BytesBeside(NamedTuple):
    """Bytes of a file beside, which are a tensor's numbers."""

    file: str
    """Name, as the model says it."""
    begin: int
    size: int | None
    """None for all up to the file's end."""


def parts_beside(data: Octets) -> tuple[BytesBeside, ...]:
    """Return the parts of other files that an ONNX file needs, in its order.

    Names and places are as the file says them. Raises `GraphFileError` for what is no ONNX file.
    """
    found: list[BytesBeside] = []

    def note(part: BytesBeside) -> bytes:
        found.append(part)
        return b""

    with_parts(data, note)
    return tuple(found)


def with_parts(data: Octets, read: Callable[[BytesBeside], bytes]) -> bytes:
    """Return an ONNX file that holds what lies beside it; `read` returns the bytes of a part.

    All else stays as it is. Raises `GraphFileError` for what is no ONNX file.
    """
    wire = Wire(data, _MAX_FIELDS)
    return _message(wire, "model", (0, len(data)), read, 0)


def _message(
    wire: Wire, kind: str, span: tuple[int, int], read: Callable[[BytesBeside], bytes], depth: int
) -> bytes:
    if depth > _MAX_DEPTH:
        raise GraphFileError(f"messages nest deeper than {_MAX_DEPTH}")
    pieces, told, elsewhere = list[bytes](), dict[str, str](), False
    for number, form, first, last in wire.fields(*span):
        known = MESSAGES[kind].get(number)
        inside = "" if known is None or form != LENGTH else known.message
        if kind == "tensor" and number == _EXTERNAL_DATA and form == LENGTH:
            told |= [_entry(wire, first, last)]
        elif kind == "tensor" and number == _DATA_LOCATION and form == VARINT:
            elsewhere = first == 1
        elif inside in _HOLDING:
            made = _message(wire, inside, (first, last), read, depth + 1)
            pieces += [_varint(number << 3 | form), _varint(len(made)), made]
        else:
            pieces += _field(wire, number, form, first, last)
    if elsewhere:
        raw = read(_part(told))
        pieces += [_varint(_RAW_DATA << 3 | LENGTH), _varint(len(raw)), raw]
    return b"".join(pieces)


def _entry(wire: Wire, begin: int, end: int) -> tuple[str, str]:
    """Return a key with its value."""
    texts = {1: "", 2: ""}
    for number, form, first, last in wire.fields(begin, end):
        if form == LENGTH:
            texts[number] = wire.text(first, last, _LONGEST_TEXT)
    return texts[1], texts[2]


def _part(told: dict[str, str]) -> BytesBeside:
    places = [told.get(key, "") for key in ("offset", "length")]
    if any(text and not (text.isascii() and text.isdigit() and len(text) < 16) for text in places):
        raise GraphFileError(f"data beside it begins at {places[0]!r} and has {places[1]!r} bytes")
    begin, size = (int(text) if text else None for text in places)
    return BytesBeside(told.get("location", ""), begin or 0, size)


def _field(wire: Wire, number: int, form: int, first: int, last: int) -> list[bytes]:
    tag = _varint(number << 3 | form)
    if form == VARINT:
        return [tag, _varint(first)]
    if form in (FIXED32, FIXED64):
        return [tag, wire.data[first:last]]
    return [tag, _varint(last - first), wire.data[first:last]]


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
