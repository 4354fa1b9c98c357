"""Integers of 2 to 48 bits, packed without gaps.

Value after value, most significant bit first, two's complement where signed; the last byte is
filled with zero bits. The law is

    unpack_integers(pack_integers(x, bits, signed=s), x.size, bits, signed=s) == x

and every byte string of the right length whose spare bits are zero is the packing of exactly one
array, so packed data has one form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.schemas.errors import TensorError

MIN_BITS = 2
MAX_BITS = 48

Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 15
"""Values handled at once: a multiple of 8, so that every full block ends on a whole byte."""
_WORD = 64


@dataclass(frozen=True)
class PackedIntegers:
    """An integer tensor in packed form: `data` holds the values of `shape` in row-major order."""

    data: bytes
    bits: int
    shape: tuple[int, ...]
    signed: bool = True

    @classmethod
    def pack(cls, values: npt.NDArray[np.integer], bits: int, *, signed: bool = True) -> Self:
        """Return `values` packed; raise `TensorError` when one does not fit into `bits`."""
        return cls(pack_integers(values, bits, signed=signed), bits, values.shape, signed)

    @property
    def count(self) -> int:
        """Number of values."""
        return prod(self.shape)

    def unpack(self) -> Integers:
        """Return the values as int64 of `shape`; raise `TensorError` when `data` is malformed."""
        values = unpack_integers(self.data, self.count, self.bits, signed=self.signed)
        return values.reshape(self.shape)


def packed_size(count: int, bits: int) -> int:
    """Return the number of bytes that `count` integers of `bits` bits take."""
    return (count * bits + 7) // 8


def smallest_bits(values: npt.NDArray[np.integer], *, signed: bool = True) -> int:
    """Return the fewest bits, at least 2, that hold every value; may exceed what can be packed."""
    if values.size == 0:
        return MIN_BITS
    low, high = int(values.min()), int(values.max())
    magnitude = max(high, -low - 1, 0)
    return max(MIN_BITS, magnitude.bit_length() + int(signed))


def pack_integers(values: npt.NDArray[np.integer], bits: int, *, signed: bool = True) -> bytes:
    """Return `values` in row-major order, `bits` bits each.

    Raises `TensorError` when a value is outside [-2^(bits-1), 2^(bits-1)) or, unsigned,
    [0, 2^bits).
    """
    _check_bits(bits)
    if not np.issubdtype(values.dtype, np.integer):
        raise TensorError(f"values: {values.dtype} cannot be packed; give integers")
    low, high = _range(bits, signed)
    if values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        raise TensorError(
            f"values: {int(values.min())} to {int(values.max())} do not fit {bits} "
            f"{'signed' if signed else 'unsigned'} bits ({low} to {high}); use more bits"
        )
    flat = values.reshape(-1)
    blocks = range(0, flat.size, _BLOCK)
    return b"".join(_pack_block(flat[start : start + _BLOCK], bits) for start in blocks)


def unpack_integers(data: bytes, count: int, bits: int, *, signed: bool = True) -> Integers:
    """Return `count` integers from `data` as int64, the inverse of `pack_integers`.

    Raises `TensorError` before anything is allocated unless `data` has exactly the length of
    `count` values, and when a spare bit of its last byte is set.
    """
    _check_bits(bits)
    expected = packed_size(count, bits)
    if count < 0 or len(data) != expected:
        raise TensorError(
            f"data: {len(data)} bytes for {count} integers of {bits} bits; give {expected} bytes"
        )
    spare = 8 * expected - count * bits
    if spare and data[-1] & ((1 << spare) - 1):
        raise TensorError(f"data: the last {spare} bits are spare and not zero; set them to zero")
    packed = np.frombuffer(data, np.uint8)
    values = np.empty(count, np.int64)
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        block = packed[start * bits // 8 : packed_size(stop, bits)]
        values[start:stop] = _unpack_block(block, stop - start, bits, signed)
    return values


def _check_bits(bits: int) -> None:
    if not MIN_BITS <= bits <= MAX_BITS:
        raise TensorError(f"bits: {bits} is not supported; give {MIN_BITS} to {MAX_BITS}")


def _range(bits: int, signed: bool) -> tuple[int, int]:
    if signed:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _pack_block(values: npt.NDArray[np.integer], bits: int) -> bytes:
    words = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    return np.packbits(np.unpackbits(words, axis=1)[:, _WORD - bits :]).tobytes()


def _unpack_block(
    packed: npt.NDArray[np.uint8], count: int, bits: int, signed: bool
) -> npt.NDArray[np.int64]:
    words = np.zeros((count, _WORD), np.uint8)
    words[:, _WORD - bits :] = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    values = np.packbits(words).view(">i8").astype(np.int64)
    if signed:
        sign = np.int64(1 << (bits - 1))
        values = (values ^ sign) - sign
    return values
