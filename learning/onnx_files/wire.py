"""Protobuf's wire format, read field by field, for files that somebody may have made to do harm.

Nothing is allocated by a size that the data declares, every field costs of a budget, and what a
lenient reader would let pass is refused: numbers of more than ten bytes, lengths beyond the end of
their message, groups, field 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, overload

from fleetledger.learning.errors import GraphFileError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}
_MAX_SHIFT = 63
_MORE = 0x80
_LARGEST = (1 << 64) - 1

Raw = tuple[int, int, int, int]
"""Number of a field, its wire type, and begin and end of its bytes; of a varint, its value
stands for the begin."""


class Octets(Protocol):
    """Bytes by place, such as `bytes` or a mapped file."""

    def __len__(self) -> int:
        """Return how many there are."""

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...


class Wire:
    """Reads the fields of messages in `data`, at most `budget` of them in all."""

    def __init__(self, data: Octets, budget: int) -> None:
        self.data = data
        self._budget = self._left = budget

    def fields(self, at: int, end: int) -> Iterator[Raw]:
        """Yield the fields of the message from `at` to `end`.

        Raises `GraphFileError` if it is none.
        """
        while at < end:
            self._spend()
            tag, at = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise GraphFileError("a field has the number 0; no ONNX file has such")
            if kind == VARINT:
                value, at = self._varint(at, end)
                yield number, kind, value, at
                continue
            begin, at = self._span(kind, at, end)
            yield number, kind, begin, at

    def numbers(self, begin: int, end: int) -> Iterator[int]:
        """Yield the varints that lie packed from `begin` to `end`."""
        while begin < end:
            self._spend()
            value, begin = self._varint(begin, end)
            yield value

    def text(self, begin: int, end: int, longest: int) -> str:
        """Return a short text; raise `GraphFileError` for a longer one, or what is no UTF-8."""
        if end - begin > longest:
            raise GraphFileError(f"a name of {end - begin} bytes; at most {longest} are read")
        try:
            return self.data[begin:end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise GraphFileError("a name is no UTF-8") from error

    def _span(self, kind: int, at: int, end: int) -> tuple[int, int]:
        """Return begin and end of a field's bytes."""
        if kind == LENGTH:
            size, at = self._varint(at, end)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise GraphFileError(f"a field is of wire type {kind}, which no ONNX file has")
        if size > end - at:
            raise GraphFileError(f"a field declares {size} bytes where {end - at} are left")
        return at, at + size

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                if value > _LARGEST:
                    raise GraphFileError("a number has more than 64 bits")
                return value, at
            shift += 7
            if shift > _MAX_SHIFT:
                raise GraphFileError("a number has more than ten bytes")
        raise GraphFileError("ends in the middle of a number")

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise GraphFileError(f"has more than {self._budget} fields; export a smaller network")


def signed(value: int) -> int:
    """Return a varint as the int64 that it stands for."""
    return value - (1 << 64) if value >> 63 else value
