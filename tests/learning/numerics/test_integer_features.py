"""Integer features against rational arithmetic, one number at a time."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics.counter_generator import integer_map
from fleetledger.learning.numerics.integer_features import (
    IntegerProjection,
    exact_product_type,
    largest_feature,
    project_integer,
    quantise_features,
)

features_f = npst.arrays(
    np.float32,
    npst.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False),
)


def slow_quantise(row: np.ndarray) -> list[int]:
    largest = max(abs(value) for value in row)
    divisor = largest if largest != 0 else np.float32(1)
    scaled = [np.float32(np.float32(value / divisor) * np.float32(127)) for value in row]
    return [round(float(value)) for value in scaled]


def slow_project(row: np.ndarray, matrix: np.ndarray, bits: int) -> list[int]:
    sums = [sum(int(q) * int(r) for q, r in zip(row, c, strict=True)) for c in matrix.T]
    positive = [max(0, value) for value in sums]
    largest = max(positive) or 1
    return [floor(Fraction(a * (2**bits - 1), largest) + Fraction(1, 2)) for a in positive]


@given(features_f)
def test_quantising_follows_the_stated_float32_steps(features):
    quantised = quantise_features(features)
    assert quantised.dtype == np.int8
    assert quantised.tolist() == [slow_quantise(row) for row in features]


def test_halves_round_to_even():
    rows = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    assert quantise_features(rows).tolist() == [[127, 0, 2, 2, 0, -2]]


@pytest.mark.parametrize("bits", [7, 8])
@given(rows=npst.arrays(np.int8, (3, 6), elements=st.integers(-127, 127)), seed=st.integers(0, 99))
def test_projection_is_exact_and_rounds_half_up(bits, rows, seed):
    matrix = integer_map(seed, 6, 5)
    projected = project_integer(rows, matrix, bits)
    assert projected.tolist() == [slow_project(row, matrix, bits) for row in rows]


def test_the_largest_of_a_sample_becomes_the_largest_level():
    quantised = quantise_features(np.random.default_rng(0).normal(size=(9, 30)).astype(np.float32))
    for bits in (7, 8):
        projected = project_integer(quantised, integer_map(1, 30, 50), bits)
        assert (projected.max(axis=1) == largest_feature(bits)).all()


def test_a_sample_of_zeros_stays_zero():
    quantised = quantise_features(np.zeros((2, 4), np.float32))
    assert not quantised.any()
    assert not project_integer(quantised, integer_map(1, 4, 6), 7).any()


def test_many_rows_are_projected_as_one_by_one():
    rng = np.random.default_rng(2)
    quantised = rng.integers(-127, 128, (2100, 8)).astype(np.int8)
    matrix = integer_map(4, 8, 12)
    together = project_integer(quantised, matrix, 7)
    for row in (0, 1023, 1024, 2099):
        assert np.array_equal(
            project_integer(quantised[row : row + 1], matrix, 7)[0], together[row]
        )


def test_float32_is_used_only_where_every_sum_is_exact():
    assert exact_product_type(integer_map(1, 1280, 20)) is np.float32
    wide = np.full((20_000, 1), 7, np.int8)
    assert exact_product_type(wide) is np.float64
    all_largest = np.full((1, 20_000), 127, np.int8)
    assert project_integer(all_largest, wide, 7).tolist() == [[127]]


@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize("largest", [3, 254, 65_535, 16_000_000])
def test_values_about_every_half_step_are_rounded_as_integers(bits, largest):
    levels = largest_feature(bits)
    halves = [(2 * step + 1) * largest // (2 * levels) for step in range(levels)]
    values = sorted({min(max(half + d, 0), largest) for half in halves for d in (-1, 0, 1, 2)})
    values = np.array([*values, largest])
    matrix = np.stack([values // 127, values % 127]).astype(np.int32)
    assert exact_product_type(matrix) is np.float32
    projected = IntegerProjection(matrix, bits)(np.array([[127, 1]], np.int8))
    assert projected[0].tolist() == [
        (2 * value * levels + largest) // (2 * largest) for value in values.tolist()
    ]


def test_a_map_too_large_even_for_float64_is_refused():
    with pytest.raises(RangeError, match="use smaller entries"):
        exact_product_type(np.full((2, 1), 2**50))


def test_nan_and_infinity_are_refused():
    for bad in (np.nan, np.inf):
        with pytest.raises(FeatureError, match="NaN or infinite"):
            quantise_features(np.array([[1, bad]], np.float32))


def test_other_dtypes_and_shapes_are_refused():
    with pytest.raises(FeatureError, match=r"float64 \(2, 3\); give float32"):
        quantise_features(np.zeros((2, 3)))
    with pytest.raises(FeatureError, match=r"\(2, 3\) and a map of \(4, 5\)"):
        project_integer(np.zeros((2, 3), np.int8), integer_map(1, 4, 5), 7)
