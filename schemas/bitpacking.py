"""Integers of 2 to 48 bits, packed without gaps.

Value after value, most significant bit first, two's complement where signed; the last byte is
filled with zero bits. The law is

    unpack_integers(pack_integers(x, bits, signed=s), x.size, bits, signed=s) == x

and every byte string of the right length whose spare bits are zero is the packing of exactly one
array, so packed data has one form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
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
_FEW = 2048
"""Values taken one by one. Of more every eighth is taken at once, which has more steps."""
_WORD = 64
_KEPT_WIDTHS = 16
"""Widths whose places are kept, 32 KiB each."""


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
    values = np.empty(-(-count // 8) * 8, np.int64)
    words = values.view(np.uint64)
    if count <= _FEW:
        _take(data, bits, words)
    else:
        for start in range(0, count, _BLOCK):
            block = data[start * bits // 8 : packed_size(min(start + _BLOCK, count), bits)]
            _take_every_eighth(block, bits, words[start : start + _BLOCK])
    # Each value is at the top of its word: the shift brings it down, with its sign.
    if signed:
        values >>= _WORD - bits
    else:
        words >>= np.uint64(_WORD - bits)
    return values[:count]


def _check_bits(bits: int) -> None:
    if not MIN_BITS <= bits <= MAX_BITS:
        raise TensorError(f"bits: {bits} is not supported; give {MIN_BITS} to {MAX_BITS}")


def _range(bits: int, signed: bool) -> tuple[int, int]:
    if signed:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _pack_block(values: npt.NDArray[np.integer], bits: int) -> bytes:
    if values.size > _FEW:
        return _packed_every_eighth(values, bits)
    size = (bits + 7) // 8
    words = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]
    return np.packbits(np.unpackbits(words, axis=1)[:, 8 * size - bits :]).tobytes()


def _packed_every_eighth(values: npt.NDArray[np.integer], bits: int) -> bytes:
    """Pack by columns: the first of every eight values, the second, and so on."""
    rows = -(-values.size // 8)
    filled = np.zeros((rows, 8), np.int64)
    filled.reshape(-1)[: values.size] = values
    words = filled.T.astype(np.uint64, order="C")
    words <<= np.uint64(_WORD - bits)
    packed = np.zeros((bits, rows), np.uint8)
    for place, word in enumerate(words):
        first, lead = divmod(place * bits, 8)
        size = (lead + bits + 7) // 8
        shifted = (word >> np.uint64(lead)).astype(">u8").view(np.uint8).reshape(rows, 8)
        packed[first : first + size] |= shifted.T[:size]
    whole: bytes = packed.T.tobytes()
    return whole[: packed_size(values.size, bits)]


def _take(data: bytes, bits: int, words: npt.NDArray[np.uint64]) -> None:
    """Put each value of `data` at the top of its word: it begins within the first of 8 bytes."""
    at, lead = (places[: words.size] for places in _places(bits))
    windows = _words_in(data + bytes(bits + 8), len(data) + bits + 1, 0, 1)
    words[...] = windows[at]
    words <<= lead


def _take_every_eighth(data: bytes, bits: int, words: npt.NDArray[np.uint64]) -> None:
    """Do as `_take` for any number of values: every eight of them take `bits` bytes."""
    room, rows = data + bytes(bits + 8), words.reshape(-1, 8)
    for place in range(8):
        rows[:, place] = _words_in(room, len(rows), place * bits // 8, bits)
    rows <<= (np.arange(8) * bits % 8).astype(np.uint64)


def _words_in(room: bytes, count: int, first: int, step: int) -> npt.NDArray[np.uint64]:
    """Return `count` words of 8 bytes, most significant first, that begin `step` bytes apart."""
    words: npt.NDArray[np.uint64] = np.ndarray((count,), ">u8", room, first, (step,))
    return words


@lru_cache(maxsize=_KEPT_WIDTHS)
def _places(bits: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return the byte in which each value begins, and the bits before it there."""
    first = np.arange(_FEW, dtype=np.int64) * bits
    return first >> 3, (first & 7).astype(np.uint64)
