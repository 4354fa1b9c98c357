"""Tensors as bytes: safetensors in one canonical form, and packed integers.

    body   = length of header (8 bytes, little-endian) | header | tensors without gaps
    header = canonical JSON, filled with spaces to a multiple of 8: one entry per tensor, and
             `__metadata__.fleetledger` = canonical JSON of {"metadata": …, "packed": …}

`packed` gives bits, shape and sign of each packed integer tensor, whose bytes are a `U8` tensor.
Tensors lie in the order of falling item size, then name. The same tensors and metadata give the
same body on every machine, and any reader of safetensors can open it. Nothing is compressed here:
digests are of the body. What a device gave before version 2 of the envelope may be one zstd frame
of the body, in ledgers and outboxes, and is still read; the first four bytes tell the two apart
(as a header length they would mean 4 GB).

The law is `decode_tensors(encode_tensors(x), …) == x`. Everything read is checked against what the
caller expects, and sizes before anything is allocated. Pickle is never involved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.bitpacking import PackedIntegers
from fleetledger.schemas.errors import FrameError, TensorError
from fleetledger.schemas.tensor_header import (
    DTYPES,
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    Packing,
    TensorEntry,
    TensorHeader,
    check_name,
    read_header,
)
from fleetledger.schemas.zstd_frames import MAGIC, declared_size, first_bytes, unframed

Array = npt.NDArray[Any]

PACKED = "packed"
"""The dtype of packed integers in `Expected`; they are decoded to int64."""
_CHEAPER = 128
"""Bytes of tensors that take as long as one byte of JSON."""
_MOST_DECLARED = 1 << 30


@dataclass(frozen=True)
class UpTo:
    """A dimension that may have any length from 0 to `limit`."""

    limit: int


@dataclass(frozen=True)
class Expected:
    """What the reader accepts for one tensor.

    `dtype` is a NumPy name (float32, float64, int8, int16, int32, int64, uint8) or "packed".
    """

    dtype: str
    shape: tuple[int | UpTo, ...]

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Tell whether a tensor of `shape` is expected."""
        return len(shape) == len(self.shape) and all(
            0 <= size <= allowed.limit if isinstance(allowed, UpTo) else size == allowed
            for size, allowed in zip(shape, self.shape, strict=True)
        )

    def __str__(self) -> str:
        sizes = (f"up to {d.limit}" if isinstance(d, UpTo) else str(d) for d in self.shape)
        return f"{self.dtype} ({', '.join(sizes)})"


Expectation = Mapping[str, Expected] | Callable[[dict[str, Any]], Mapping[str, Expected]]


@dataclass(frozen=True)
class TensorFile:
    """Decoded tensors (packed integers as int64) with the metadata that travelled with them."""

    tensors: dict[str, Array]
    header: TensorHeader

    @property
    def metadata(self) -> dict[str, Any]:
        """JSON values of the sender, which files with equal headers share."""
        return self.header.metadata


def encode_tensors(
    tensors: Mapping[str, Array | PackedIntegers], metadata: Mapping[str, Any] | None = None
) -> bytes:
    """Return tensors and metadata (JSON values) as bytes, in the form the module describes.

    Raises `TensorError` for a dtype outside `Expected`'s list, NaN and infinity.
    """
    entries = {name: _entry(name, value) for name, value in tensors.items()}
    header = TensorHeader(entries, dict(metadata or {}))
    return header.encode() + b"".join(_data(tensors[name]) for name in header.order)


def decode_tensors(
    data: bytes, expected: Mapping[str, Expected], limit_bytes: int
) -> dict[str, Array]:
    """Return the tensors of `data`, exactly those that are `expected`.

    Raises `TensorError` that names tensor, value and way out: a body above `limit_bytes`, trailing
    bytes, unknown or missing tensors, another dtype or shape, NaN or infinity, spare bits set.
    """
    return read_tensors(data, expected, limit_bytes).tensors


def read_tensors(data: bytes, expected: Expectation, limit_bytes: int) -> TensorFile:
    """Return the tensors of `data` and their metadata; raises as `decode_tensors` does.

    `expected` may be a function of the metadata, where those tell one kind of file from another.
    """
    body = plain_body(data, limit_bytes)
    header = read_header(body)
    if callable(expected):
        expected = expected(header.metadata)
    return TensorFile(tensors_of(body, header, expected), header)


def tensors_of(
    body: bytes, header: TensorHeader, expected: Mapping[str, Expected]
) -> dict[str, Array]:
    """Return the tensors of a body with that header; raises as `decode_tensors` does."""
    _check_names(header.entries, expected)
    for name, rule in expected.items():
        _check_entry(name, header.entries[name], rule)
    places = header.places
    return {name: _value(name, header.entries[name], body, places[name]) for name in expected}


def _entry(name: str, value: Array | PackedIntegers) -> TensorEntry:
    check_name(name)
    if isinstance(value, PackedIntegers):
        packing = Packing(value.bits, value.shape, value.signed)
        return TensorEntry("uint8", (len(value.data),), packing)
    if value.dtype.name not in DTYPES:
        raise TensorError(f"{name}: dtype {value.dtype} cannot travel; give {', '.join(DTYPES)}")
    _check_finite(name, value)
    return TensorEntry(value.dtype.name, value.shape)


def _data(value: Array | PackedIntegers) -> bytes:
    if isinstance(value, PackedIntegers):
        return value.data
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def plain_body(data: bytes, limit_bytes: int) -> bytes:
    """Return the body of a file, out of its frame where it is one; its tensors are not looked at.

    Raises `TensorError` for more than `limit_bytes`, and for a frame that is not whole.
    """
    _check_size(len(data), limit_bytes)
    if not data.startswith(MAGIC):
        return data
    try:
        return unframed(data, limit_bytes)
    except FrameError as error:
        raise TensorError(str(error)) from error


def reading_cost(data: bytes) -> int:
    """Return what it takes to read a file, as bytes of JSON: its header, and a 128th of the rest.

    It is an estimate that costs nothing itself, for whoever bounds what others may have read: a
    numerical byte takes about a hundredth of the time of a byte of JSON.
    """
    size, first = len(data), data[:LENGTH_BYTES]
    if data.startswith(MAGIC):
        try:
            declared = declared_size(data)
            if declared is None:
                return size // _CHEAPER  # it is refused for that
            size = max(size, min(declared, _MOST_DECLARED))
            first = first_bytes(data, LENGTH_BYTES)
        except FrameError:
            first = b""  # nothing but bytes was looked at
    header = int.from_bytes(first, "little")
    return (header if header <= min(size, MAX_HEADER_BYTES) else 0) + size // _CHEAPER


def _check_size(size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise TensorError(f"size: {size} bytes; at most {limit_bytes} are accepted here")


def _check_names(entries: Mapping[str, TensorEntry], expected: Mapping[str, Expected]) -> None:
    unknown = sorted(set(entries) - set(expected))
    missing = sorted(set(expected) - set(entries))
    if unknown:
        raise TensorError(f"{unknown[0]}: unknown tensor; give only {', '.join(sorted(expected))}")
    if missing:
        raise TensorError(f"{missing[0]}: is missing; give {expected[missing[0]]}")


def _check_entry(name: str, entry: TensorEntry, rule: Expected) -> None:
    dtype, shape = _described(entry)
    if dtype != rule.dtype or not rule.accepts(shape):
        raise TensorError(f"{name}: {dtype} {shape} does not fit; give {rule}")


def _described(entry: TensorEntry) -> tuple[str, tuple[int, ...]]:
    if entry.packing:
        return PACKED, entry.packing.shape
    return entry.dtype, entry.shape


def _value(name: str, entry: TensorEntry, body: bytes, place: int) -> Array:
    packing = entry.packing
    if packing is None:
        stored = np.dtype(entry.dtype).newbyteorder("<")
        flat = np.frombuffer(body, stored, prod(entry.shape), place)
        value = flat.astype(entry.dtype).reshape(entry.shape)
        _check_finite(name, value)
        return value
    data = body[place : place + entry.size]
    try:
        return PackedIntegers(data, packing.bits, packing.shape, packing.signed).unpack()
    except TensorError as error:
        raise TensorError(f"{name}: {error}") from error


def _check_finite(name: str, value: Array) -> None:
    if value.dtype.kind != "f":
        return
    finite = np.isfinite(value)
    if not finite.all():
        bad = value[~finite].flat[0]
        raise TensorError(
            f"{name}: holds {bad} ({count_of(finite.size - int(finite.sum()), 'value')} not "
            "finite); give finite numbers"
        )
