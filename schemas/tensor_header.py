"""The header of a tensor file: which tensor lies where. `schemas.tensors` tells the whole format.

A header has one form. The reader takes from it only names, dtypes, shapes and metadata, writes the
header that these must have, and refuses the file where the bytes differ; so offsets that overlap,
gaps, an entry given twice and odd spacing need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod
from typing import Any, TypeVar

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError, shorten
from fleetledger.schemas.bitpacking import MAX_BITS, MIN_BITS, packed_size
from fleetledger.schemas.canonical import canonical_json, parse_json, write_checked
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message

MAX_HEADER_BYTES = 4 << 20
"""Room for 10,000 class names of the longest kind in the metadata."""
MAX_TENSORS = 1_000
MAX_VALUES = 1 << 18
"""Numbers, texts, lists and objects of a header. Without a limit four megabytes of `[]` would be a
million of them, which travel as some hundred bytes of zstd."""
DTYPES = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
}
"""NumPy name: name in safetensors, bytes per value."""
_NAMES = {code: name for name, (code, _) in DTYPES.items()}
_METADATA = "__metadata__"
_OURS = "fleetledger"
LENGTH_BYTES = 8
_ALIGNMENT = 8
_LONGEST_KEPT = 4096
"""Bytes of a header that is kept: what parts of one stage differ in is mostly behind it."""
_KEPT = 128

Told = TypeVar("Told", bound=Message)


@dataclass(frozen=True)
class Packing:
    """How integers are packed into a `uint8` tensor."""

    bits: int
    shape: tuple[int, ...]
    signed: bool


@dataclass(frozen=True)
class TensorEntry:
    """One stored tensor; `packing` where its bytes hold packed integers."""

    dtype: str
    shape: tuple[int, ...]
    packing: Packing | None = None

    @property
    def size(self) -> int:
        """Bytes that the tensor takes."""
        return prod(self.shape) * DTYPES[self.dtype][1]


@dataclass(frozen=True)
class TensorHeader:
    """Entries by tensor name, and the metadata of the sender.

    Files with equal headers share one: nobody changes it.
    """

    entries: Mapping[str, TensorEntry]
    metadata: dict[str, Any]

    def read(self, model: type[Told]) -> Told:
        """Return the metadata as `model`, read once; raise `SchemaError` as `Message.read` does."""
        found = self._read.get(model)
        if found is None:
            found = self._read[model] = model.read(self.metadata)
        return found  # type: ignore[return-value]  # it is under its own type

    @cached_property
    def _read(self) -> dict[type[Message], Message]:
        return {}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each tensor begins in the file."""
        size, ends = len(self.encode()), accumulate(self.entries[n].size for n in self.order)
        return {
            name: size + end - self.entries[name].size
            for name, end in zip(self.order, ends, strict=True)
        }

    @cached_property
    def order(self) -> list[str]:
        """Names in the order in which the tensors lie: falling item size, then name."""
        return sorted(self.entries, key=lambda name: (-DTYPES[self.entries[name].dtype][1], name))

    @cached_property
    def data_size(self) -> int:
        """Bytes that all tensors take."""
        return sum(entry.size for entry in self.entries.values())

    def encode(self) -> bytes:
        """Return the length and the header; raise `TensorError` where it becomes too large."""
        text = write_checked(self._members())
        text += b" " * (-len(text) % _ALIGNMENT)
        if len(text) > MAX_HEADER_BYTES:
            raise TensorError(
                f"header: {len(text)} bytes; at most {MAX_HEADER_BYTES} are allowed, "
                "so send fewer tensors or less metadata"
            )
        return len(text).to_bytes(LENGTH_BYTES, "little") + text

    def _members(self) -> dict[str, Any]:
        ends = accumulate(self.entries[name].size for name in self.order)
        members: dict[str, Any] = {
            name: {
                "dtype": DTYPES[self.entries[name].dtype][0],
                "shape": self.entries[name].shape,
                "data_offsets": (end - self.entries[name].size, end),
            }
            for name, end in zip(self.order, ends, strict=True)
        }
        ours = canonical_json({"metadata": self.metadata, "packed": self._packed()})
        return members | {_METADATA: {_OURS: ours.decode("utf-8")}}

    def _packed(self) -> dict[str, Any]:
        return {
            name: {"bits": e.packing.bits, "shape": e.packing.shape, "signed": e.packing.signed}
            for name, e in self.entries.items()
            if e.packing
        }


def read_header(body: bytes) -> TensorHeader:
    """Return the header of `body`, whose tensors fill the rest of it exactly.

    Raises `TensorError` for a header that is too long or not in the one form, for unknown dtypes,
    and for missing or trailing bytes.
    """
    length = int.from_bytes(body[:LENGTH_BYTES], "little")
    end = LENGTH_BYTES + length
    if len(body) < LENGTH_BYTES or length > MAX_HEADER_BYTES or end > len(body):
        raise TensorError(
            f"header: {length} bytes in a body of {len(body)}; give a whole tensor file "
            f"whose header has at most {MAX_HEADER_BYTES} bytes"
        )
    header = (_kept if end <= _LONGEST_KEPT else _checked)(body[:end])
    if len(body) != end + header.data_size:
        raise TensorError(
            f"body: {len(body)} bytes where the header tells of {end + header.data_size}; "
            "send the whole file and nothing after it"
        )
    return header


def _checked(data: bytes) -> TensorHeader:
    header = _parse(data[LENGTH_BYTES:])
    if header.encode() != data:
        raise TensorError("header: not in the one form that is accepted; use `encode_tensors`")
    return header


_kept = lru_cache(maxsize=_KEPT)(_checked)
"""Headers by their bytes: those of parts repeat, and to read one takes longer than its tensors."""


def check_name(name: str) -> None:
    """Raise `TensorError` for a tensor name that the format cannot hold."""
    if not 1 <= len(name) <= 100 or name == _METADATA:
        raise TensorError(f"name: {shorten(name)} is not allowed; give 1 to 100 characters")


def _parse(text: bytes) -> TensorHeader:
    try:
        members = _members_of(parse_json(text, MAX_VALUES), "header")
        ours = _members_of(members.pop(_METADATA, None), _METADATA)
        extra = _members_of(parse_json(str(ours.get(_OURS)).encode("utf-8")), _OURS)
    except SchemaError as error:
        raise TensorError(f"header: {error}") from error
    packed = _members_of(extra.get("packed"), "packed")
    metadata = _members_of(extra.get("metadata"), "metadata")
    if len(members) > MAX_TENSORS:
        raise TensorError(
            f"header: {count_of(len(members), 'tensor')}; at most {MAX_TENSORS} are allowed"
        )
    entries = {name: _entry(name, member, packed.get(name)) for name, member in members.items()}
    return TensorHeader(entries, metadata)


def _members_of(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TensorError(f"{what}: {shorten(value)} is not an object; use `encode_tensors`")
    return value


def _entry(name: str, member: object, packing: object) -> TensorEntry:
    check_name(name)
    fields = _members_of(member, name)
    dtype = _NAMES.get(str(fields.get("dtype")))
    if dtype is None:
        raise TensorError(
            f"{name}: dtype {shorten(fields.get('dtype'))} is not accepted; "
            f"give one of {', '.join(_NAMES)}"
        )
    shape = _shape(name, fields.get("shape"))
    return TensorEntry(dtype, shape, None if packing is None else _packing(name, packing, shape))


def _packing(name: str, value: object, stored: tuple[int, ...]) -> Packing:
    fields = _members_of(value, name)
    bits, signed = fields.get("bits"), fields.get("signed")
    if type(bits) is not int or not MIN_BITS <= bits <= MAX_BITS or type(signed) is not bool:
        raise TensorError(
            f"{name}: packing {shorten(value)}; give bits from {MIN_BITS} to {MAX_BITS} and signed"
        )
    shape = _shape(name, fields.get("shape"))
    if stored != (packed_size(prod(shape), bits),):
        raise TensorError(f"{name}: {stored} bytes for {shape} integers of {bits} bits do not fit")
    return Packing(bits, shape, signed)


def _shape(name: str, value: object) -> tuple[int, ...]:
    sizes = value if isinstance(value, list) else [None]
    if len(sizes) > 8 or not all(type(size) is int and 0 <= size < 2**48 for size in sizes):
        raise TensorError(f"{name}: shape {shorten(value)}; give up to 8 sizes from 0 upwards")
    return tuple(sizes)
