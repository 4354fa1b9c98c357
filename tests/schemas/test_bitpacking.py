"""Packed integers: the law of the codec, its one form, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.schemas.bitpacking import (
    MAX_BITS,
    MIN_BITS,
    PackedIntegers,
    pack_integers,
    packed_size,
    smallest_bits,
    unpack_integers,
)
from fleetledger.schemas.errors import TensorError


@st.composite
def packable(draw: st.DrawFn) -> tuple[np.ndarray, int, bool]:
    bits, signed = draw(st.integers(MIN_BITS, MAX_BITS)), draw(st.booleans())
    low = -(2 ** (bits - 1)) if signed else 0
    values = draw(st.lists(st.integers(low, low + 2**bits - 1), max_size=40))
    return np.array(values, np.int64), bits, signed


def slow_pack(values: np.ndarray, bits: int) -> bytes:
    text = "".join(format(int(value) % 2**bits, f"0{bits}b") for value in values)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[start : start + 8], 2) for start in range(0, len(text), 8))


@given(packable())
def test_unpacking_undoes_packing(case):
    values, bits, signed = case
    data = pack_integers(values, bits, signed=signed)
    assert len(data) == packed_size(values.size, bits)
    assert np.array_equal(unpack_integers(data, values.size, bits, signed=signed), values)


@given(packable())
def test_the_bytes_are_those_of_the_obvious_way(case):
    values, bits, signed = case
    assert pack_integers(values, bits, signed=signed) == slow_pack(values, bits)


@pytest.mark.parametrize("count", [7, 8, 2047, 2048, 2049, 2055])
def test_few_and_many_values_of_every_width_have_the_obvious_bytes(count):
    random = np.random.default_rng(count)
    for bits in range(MIN_BITS, MAX_BITS + 1):
        half = 2 ** (bits - 1)
        values = random.integers(-half, half, count)
        data = pack_integers(values, bits)
        assert data == slow_pack(values, bits)
        assert np.array_equal(unpack_integers(data, count, bits), values)
        without_sign = unpack_integers(data, count, bits, signed=False)
        assert np.array_equal(without_sign, values % 2**bits)


@pytest.mark.parametrize("bits", [2, 7, 10, 33, 48])
def test_blocks_join_without_a_seam(bits):
    half = 2 ** (bits - 1)
    values = np.random.default_rng(bits).integers(-half, half, 70_001)
    data = pack_integers(values, bits)
    assert np.array_equal(unpack_integers(data, values.size, bits), values)
    assert data[:1000] == slow_pack(values[:8000], bits)[:1000]


@given(packable())
def test_the_smallest_bits_hold_the_values_and_one_less_does_not(case):
    values, _, signed = case
    bits = smallest_bits(values, signed=signed)
    pack_integers(values, bits, signed=signed)
    if bits > MIN_BITS:
        with pytest.raises(TensorError, match="do not fit"):
            pack_integers(values, bits - 1, signed=signed)


def test_a_shape_travels_with_packed_integers():
    values = np.arange(-6, 6).reshape(3, 4)
    packed = PackedIntegers.pack(values, 5)
    assert packed.count == 12
    assert np.array_equal(packed.unpack(), values)


def test_values_that_do_not_fit_are_refused_by_name():
    with pytest.raises(TensorError, match=r"0 to 512 do not fit 10 signed bits \(-512 to 511\)"):
        pack_integers(np.array([0, 512]), 10)


def test_negative_values_need_a_sign():
    with pytest.raises(TensorError, match="unsigned bits"):
        pack_integers(np.array([-1]), 10, signed=False)


def test_floats_are_not_packed():
    with pytest.raises(TensorError, match="give integers"):
        pack_integers(np.array([1.0]), 10)


@pytest.mark.parametrize("bits", [1, 49])
def test_other_widths_are_refused(bits):
    with pytest.raises(TensorError, match="2 to 48"):
        pack_integers(np.array([0]), bits)


@pytest.mark.parametrize("size", [0, 12, 14])
def test_any_other_length_is_refused(size):
    with pytest.raises(TensorError, match="give 13 bytes"):
        unpack_integers(bytes(size), 10, 10)


def test_a_count_that_would_fill_the_memory_is_refused_before_allocation():
    with pytest.raises(TensorError, match=f"{2**60} integers"):
        unpack_integers(bytes(13), 2**60, 10)


def test_spare_bits_must_be_zero():
    data = bytearray(pack_integers(np.arange(10), 10))
    data[-1] |= 1
    with pytest.raises(TensorError, match="spare"):
        unpack_integers(bytes(data), 10, 10)
