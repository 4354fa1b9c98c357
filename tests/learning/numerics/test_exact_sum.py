"""Scaled integers against fractions: associative, commutative, undone by subtraction."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.exact_sum import ScaledIntegers, smallest_exponent
from fleetledger.learning.numerics.exactness import prove_float64, prove_sum

scaled = st.builds(
    lambda values, exponent: ScaledIntegers(np.array(values, np.int64), exponent),
    st.lists(st.integers(-(2**47), 2**47), min_size=3, max_size=3),
    st.integers(-9, 3),
)


def fractions(numbers: ScaledIntegers) -> list[Fraction]:
    return [int(value) * Fraction(2) ** numbers.exponent for value in numbers.values]


def same(one: ScaledIntegers, two: ScaledIntegers) -> bool:
    return fractions(one) == fractions(two)


@given(scaled, scaled)
def test_addition_is_that_of_fractions(one, two):
    assert fractions(one + two) == [
        a + b for a, b in zip(fractions(one), fractions(two), strict=True)
    ]


@given(scaled, scaled, scaled)
def test_addition_is_associative_and_commutative(one, two, three):
    assert same((one + two) + three, one + (two + three))
    assert same(one + two, two + one)


@given(scaled, scaled)
def test_subtraction_undoes_addition(one, two):
    assert same(one + two - two, one)


@given(scaled, scaled)
def test_a_sum_in_place_is_the_same_and_leaves_the_other_alone(one, two):
    fine, coarse = sorted((one, two), key=lambda numbers: numbers.exponent)
    expected, other = fine + coarse, coarse.values.copy()
    memory = fine.values
    fine.add(coarse)
    assert same(fine, expected)
    assert fine.values is memory
    assert np.array_equal(coarse.values, other)


def test_a_sum_in_place_that_may_overflow_or_round_is_refused_before_anything_is_added():
    numbers = ScaledIntegers(np.array([2**62, 1]), 0)
    for other in (ScaledIntegers(np.array([2**62, 1]), 0), ScaledIntegers(np.array([1, 1]), -1)):
        with pytest.raises(RangeError):
            numbers.add(other)
        assert numbers.values.tolist() == [2**62, 1]


@given(scaled)
def test_floats_are_exact_where_they_can_be(numbers):
    assert [Fraction(x) for x in numbers.to_float()] == fractions(numbers)


def test_the_step_is_the_finer_of_both():
    assert (ScaledIntegers(np.array([1]), 3) + ScaledIntegers(np.array([1]), -2)).exponent == -2


def test_a_coarser_step_is_refused_because_it_would_round():
    with pytest.raises(RangeError, match="would round"):
        ScaledIntegers(np.array([2]), 0).at(1)


@pytest.mark.parametrize("values", [[2**62, 2**62], [-(2**62), -(2**62) - 1]])
def test_a_sum_that_may_overflow_is_refused(values):
    one, two = (ScaledIntegers(np.array([value])) for value in values)
    with pytest.raises(RangeError, match="may leave int64"):
        one + two


@pytest.mark.parametrize(("value", "shift"), [(1, 63), (2**40, 23), (-(2**40), 24), (1, 500)])
def test_a_shift_that_overflows_is_refused(value, shift):
    with pytest.raises(RangeError, match="narrow the range"):
        ScaledIntegers(np.array([value]), shift).at(0)


def test_zeros_can_be_shifted_without_end():
    assert ScaledIntegers(np.array([0]), 500).at(0).values.tolist() == [0]


def test_rounding_to_steps_is_to_nearest_even_and_never_clips():
    numbers = ScaledIntegers.rounded(np.array([0.25, 0.75, -1.25, 1.0]), -1, 4)
    assert numbers.values.tolist() == [0, 2, -2, 2]
    with pytest.raises(RangeError, match="do not fit 4 bits"):
        ScaledIntegers.rounded(np.array([3.8]), -1, 4)
    with pytest.raises(RangeError, match="nan steps"):
        ScaledIntegers.rounded(np.array([np.nan]), -1, 4)


@given(st.floats(0, 1e9), st.integers(3, 48))
def test_the_smallest_exponent_holds_the_value_and_one_less_does_not(largest, bits):
    exponent = smallest_exponent(largest, bits, -60, 60)
    ScaledIntegers.rounded(np.array([largest]), exponent, bits)
    if exponent > -60:
        with pytest.raises(RangeError):
            ScaledIntegers.rounded(np.array([largest]), exponent - 1, bits)


@pytest.mark.parametrize("largest", [2.0**20, np.inf, np.nan])
def test_a_value_too_large_for_the_coarsest_step_is_refused(largest):
    with pytest.raises(RangeError, match=r"coarsest allowed is 2\^5"):
        smallest_exponent(largest, 8, -5, 5)


def test_a_fleet_sum_is_proven_or_refused():
    assert prove_sum("gram", 2**47 - 1, 4, 4096) == 64
    with pytest.raises(RangeError, match=r"gram: 4096 parts .* need 65 bits"):
        prove_sum("gram", 2**47, 4, 4096)


def test_a_float64_product_is_proven_or_refused():
    prove_float64("product", 2**53)
    with pytest.raises(RangeError, match=r"product: .* not exact in float64"):
        prove_float64("product", 2**53 + 1)
