"""How many bytes a stored tensor takes, by what it declares and by what is there."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.wire import Octets

MAX_RANK = 32
MAX_NUMBERS = 1 << 28
"""Numbers that a tensor may hold or declare; of float32 that is a gibibyte."""
_PIECE = 1 << 20


class ElementKind(NamedTuple):
    """A type of element: bits in `raw_data`, and the field that may hold it instead."""

    bits: int
    field: str
    per_entry: int = 1
    """Elements in one entry of that field."""


KINDS = {
    1: ElementKind(32, "float_data"),
    2: ElementKind(8, "int32_data"),
    3: ElementKind(8, "int32_data"),
    4: ElementKind(16, "int32_data"),
    5: ElementKind(16, "int32_data"),
    6: ElementKind(32, "int32_data"),
    7: ElementKind(64, "int64_data"),
    8: ElementKind(0, "string_data"),
    9: ElementKind(8, "int32_data"),
    10: ElementKind(16, "int32_data"),
    11: ElementKind(64, "double_data"),
    12: ElementKind(32, "uint64_data"),
    13: ElementKind(64, "uint64_data"),
    16: ElementKind(16, "int32_data"),
    17: ElementKind(8, "int32_data"),
    18: ElementKind(8, "int32_data"),
    19: ElementKind(8, "int32_data"),
    20: ElementKind(8, "int32_data"),
    21: ElementKind(4, "int32_data", 2),
    22: ElementKind(4, "int32_data", 2),
}
"""By the number of the type in ONNX; complex numbers are not among them."""


def numbers_of(dims: list[int]) -> int:
    """Return how many numbers a shape has; raise `GraphFileError` for one that cannot be."""
    if len(dims) > MAX_RANK:
        raise GraphFileError(f"a shape of rank {len(dims)}; at most {MAX_RANK} are read")
    if any(dim < 0 for dim in dims):
        raise GraphFileError(f"a shape {tuple(dims)} has a negative axis")
    count = prod(dims)
    # An axis of 0 must not hide one that overflows beside it.
    if count > MAX_NUMBERS or max(dims, default=0) > MAX_NUMBERS:
        raise GraphFileError(f"a shape {tuple(dims)} has more than {MAX_NUMBERS} numbers")
    return count


def check_stored(name: str, data_type: int, dims: list[int], stored: dict[str, int]) -> None:
    """Raise `GraphFileError` unless a tensor's data is exactly what its type and shape declare.

    `stored` has, for each field with data, its entries; of `raw_data`, its bytes.
    """
    kind = KINDS.get(data_type)
    if kind is None:
        raise GraphFileError(f"tensor {name!r} is of type {data_type}, which devices do not take")
    count = numbers_of(dims)
    expected = {kind.field: -(-count // kind.per_entry)}
    if kind.bits and set(stored) == {"raw_data"}:
        expected = {"raw_data": -(-count * kind.bits // 8)}
    found = {field: entries for field, entries in stored.items() if entries}
    if found != {field: entries for field, entries in expected.items() if entries}:
        raise GraphFileError(
            f"tensor {name!r} declares {count} numbers of type {data_type}, and holds "
            f"{found or 'nothing'}"
        )


def varints_in(data: Octets, begin: int, end: int) -> int:
    """Return how many varints lie packed from `begin` to `end`, without reading each of them."""
    count = 0
    for at in range(begin, end, _PIECE):
        piece = np.frombuffer(data[at : min(at + _PIECE, end)], np.uint8)
        count += int(np.count_nonzero(piece < 0x80))
    return count
