"""Lengths of updates, beside sums of Python's integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.numerics.differences import DifferenceGrid
from fleetledger.learning.numerics.norms import UpdateNorm
from fleetledger.learning.numerics.weights import WeightGrid

SENT = {
    "a.weight": np.linspace(-70, 70, 12, dtype=np.float32).reshape(3, 4),
    "b.bias": np.array([0.25, -0.5, 0.125], np.float32),
    "c.running_var": np.array([3.0, 0.0], np.float32),
}
GRID = WeightGrid.around(SENT)
NORM = UpdateNorm(GRID, SENT, steps_from_sent=False)
SIZE = GRID.size

answers = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=SIZE, max_size=SIZE).map(
    lambda found: np.array(found, np.int32)
)


def _slow_square(values: npt.NDArray[np.int32]) -> Fraction:
    total = Fraction(0)
    for name, place in GRID.places.items():
        step = Fraction(2) ** GRID.exponents[name]
        for value, sent in zip(values[place].tolist(), SENT[name].reshape(-1), strict=True):
            origin = round(Fraction(float(sent)) / step)
            total += ((value - origin) * step) ** 2
    return total


@given(answers)
def test_a_length_is_the_sum_of_squares_of_exact_fractions(values: npt.NDArray[np.int32]) -> None:
    assert NORM.squared(NORM.moved(values)) == _slow_square(values)


@given(answers, st.floats(1e-6, 1e4))
def test_what_is_cut_is_no_longer_than_allowed_and_lies_between_what_was_sent_and_given(
    values: npt.NDArray[np.int32], most: float
) -> None:
    cut = NORM.clipped(values, most)
    assert _slow_square(cut) <= Fraction(most) ** 2 or np.array_equal(cut, values)
    assert NORM.is_within(cut, most)
    before, after = NORM.moved(values), NORM.moved(cut)
    assert np.all(np.abs(after) <= np.abs(before))
    assert np.all(after * np.sign(before) >= 0)


def test_a_cut_update_keeps_its_direction_and_nearly_all_of_the_length() -> None:
    values = GRID.flat({name: array + np.float32(2) for name, array in SENT.items()})
    length = NORM.length(NORM.moved(values))
    cut = NORM.clipped(values, length / 7)
    assert NORM.length(NORM.moved(cut)) == pytest.approx(length / 7, rel=1e-4)
    assert np.allclose(NORM.moved(cut) * 7, NORM.moved(values), rtol=1e-3, atol=7)


def test_an_update_at_the_limit_stays_as_it_is() -> None:
    zeros = {name: np.zeros_like(array) for name, array in SENT.items()}
    grid = WeightGrid.around(zeros)
    norm = UpdateNorm(grid, zeros, steps_from_sent=False)
    values = grid.flat({**zeros, "b.bias": np.array([3.0, 4.0, 0.0], np.float32)})
    assert norm.length(norm.moved(values)) == 5.0
    assert norm.clipped(values, 5.0) is values
    assert norm.is_within(values, 5.0)
    assert not norm.is_within(values, np.nextafter(5.0, 0))
    still = GRID.flat(SENT)
    assert NORM.clipped(still, 1e-9) is still


def test_many_numbers_of_any_size_are_summed_exactly() -> None:
    shape = {"w": np.zeros(100_003, np.float32)}
    grid = WeightGrid.around(shape)
    norm = UpdateNorm(grid, shape, steps_from_sent=False)
    values = np.random.default_rng(3).integers(-(2**31), 2**31, grid.size).astype(np.int32)
    units = sum(value * value for value in values.tolist())
    assert norm.squared(norm.moved(values)) == units * Fraction(4) ** grid.exponents["w"]


def test_what_is_left_out_has_no_length_and_is_shortened_alike() -> None:
    norm = UpdateNorm(GRID, SENT, steps_from_sent=False, left_out=("b.bias",))
    far = {name: array + np.float32(1) for name, array in SENT.items()}
    far["b.bias"] = SENT["b.bias"] + np.float32(64)
    values = GRID.flat(far)
    assert norm.length(norm.moved(values)) == pytest.approx(np.sqrt(14), rel=1e-3)
    cut = norm.clipped(values, np.sqrt(14) / 2)
    assert norm.moved(cut)[GRID.places["b.bias"]] == pytest.approx(
        norm.moved(values)[GRID.places["b.bias"]] / 2, rel=1e-3
    )


def test_steps_from_what_was_sent_need_no_origin() -> None:
    grid = DifferenceGrid.around(SENT)
    norm = UpdateNorm(grid, SENT, steps_from_sent=True)
    moved = {name: array + np.float32(0.5) for name, array in SENT.items()}
    steps = grid.expand(grid.encode(moved))
    assert norm.length(norm.moved(steps)) == pytest.approx(0.5 * np.sqrt(SIZE), rel=1e-6)
    assert norm.length(norm.moved(norm.clipped(steps, 0.5))) == pytest.approx(0.5, rel=1e-3)
