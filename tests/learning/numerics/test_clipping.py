"""Clipped updates against fractions: never longer than the clip, and one device moves no more."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.errors import NetworkError, RangeError
from fleetledger.learning.numerics.clipping import ClippedGrid
from fleetledger.learning.numerics.weights import SumLimits, WeightSum
from fleetledger.learning.privacy.accounting import MOST_NOISE

SHAPES = {"linear.weight": (30, 7), "norm.running_var": (7,), "scale": ()}
SIZE = 30 * 7 + 7 + 1


def model(seed, far=1.0):
    random = np.random.default_rng(seed)
    arrays = {
        name: np.asarray(far * random.normal(0, 1, shape), np.float32)
        for name, shape in SHAPES.items()
    }
    return arrays | {"norm.running_var": np.abs(arrays["norm.running_var"])}


SENT = model(0) | {"counted": np.zeros((), np.int64)}


def squares(values):
    return sum(int(value) ** 2 for value in values)


@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.floats(1e-6, 1e5))
def test_no_update_is_longer_than_the_clip_and_one_that_is_shorter_stays(seed, clip, far):
    grid = ClippedGrid.around(SENT, clip)
    weights = {**model(seed, far), "counted": SENT["counted"]}
    values = grid.clipped(weights)
    step = Fraction(2) ** grid.exponent
    assert 2**19 <= grid.bound < 2**20
    assert grid.bound * step <= Fraction(clip) < (grid.bound + 1) * step
    assert squares(values) <= grid.bound**2
    grid.check_length(values)
    exact = np.concatenate(
        [
            (weights[name].astype(np.float64) - SENT[name].astype(np.float64)).reshape(-1)
            for name in sorted(SHAPES)
        ]
    )
    length = float(np.linalg.norm(exact))
    shrunk = min(1.0, clip / length)
    assert (
        np.abs(values * float(step) - shrunk * exact).max()
        <= 0.51 * float(step)
        + (2 + sqrt(SIZE) / 2) / grid.bound * shrunk * np.abs(exact).max() * 1.01
    )


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=SIZE, max_size=SIZE))
def test_the_length_is_exact_and_rounded_up(values):
    grid = ClippedGrid.around(SENT, 1.0)
    array = np.array(values, np.int32)
    exact = isqrt(squares(values) - 1) + 1 if any(values) else 0
    found = grid.length(array)
    assert found == exact if exact <= grid.bound else found > grid.bound


def test_one_step_beyond_the_clip_is_refused_by_name():
    grid = ClippedGrid.around(SENT, 0.5)
    values = np.zeros(SIZE, np.int32)
    values[3] = grid.bound
    grid.check_length(values)
    values[4] = 1
    with pytest.raises(RangeError, match=r"L2 norm is 0\.5.*clip 0\.5.*on the device"):
        grid.check_length(values)


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(1e-3, 1e3))
def test_neighbouring_fleets_differ_by_at_most_the_clip(seed, devices, far):
    """The sensitivity: leaving any device out moves the exact sum by at most K, in integers."""
    grid = ClippedGrid.around(SENT, 0.3)
    answers = [grid.clipped(model(seed + number, far)) for number in range(devices)]

    def summed(given_by):
        total = WeightSum(grid, SumLimits(devices))
        for values in given_by:
            total.join(values.astype(np.int64), 1, 1)
        return total.flat.copy()

    whole = summed(answers)
    for left_out in range(devices):
        others = answers[:left_out] + answers[left_out + 1 :]
        assert squares(whole - summed(others)) <= grid.bound**2


def test_the_mean_with_noise_is_that_of_the_noisy_sum_and_no_variance_is_below_zero():
    grid = ClippedGrid.around(SENT, 5.0)
    total = WeightSum(grid, SumLimits(3))
    for seed in (1, 2, 3):
        total.join(grid.clipped(model(seed)).astype(np.int64), 1, 1)
    before, noise = total.flat.copy(), grid.noise(b"seed", 4.0 * grid.bound)
    noisy = total.mean(noise)
    assert np.array_equal(total.flat, before)
    for name, place in grid.places.items():
        steps = (before + noise)[place].reshape(SHAPES[name]) / 3
        slow = SENT[name] + steps * 2.0**grid.exponent
        if name == "norm.running_var":
            assert (slow < 0).any()
            slow = np.maximum(slow, 0)
        assert np.array_equal(noisy[name], slow.astype(np.float32))


def test_noise_is_that_of_its_seed_and_has_the_deviation_that_is_asked_for():
    large = ClippedGrid.around({"w": np.zeros(40_000, np.float32)}, 1.0)
    noise = large.noise(b"one", 1e5)
    assert noise.dtype == np.int64
    assert np.array_equal(noise, large.noise(b"one", 1e5))
    assert not np.array_equal(noise, large.noise(b"two", 1e5))
    assert noise.std() == pytest.approx(1e5, rel=0.02)
    assert abs(noise.mean()) < 5 * 1e5 / 200


def test_noise_that_would_leave_int32_is_refused():
    grid = ClippedGrid.around(SENT, 2 - 1e-6)
    assert (1 + 9 * MOST_NOISE) * grid.bound < 2**31
    grid.noise(b"seed", MOST_NOISE * grid.bound)
    with pytest.raises(RangeError, match=r"noise: its multiplier 300; give 0 to 200"):
        grid.noise(b"seed", 300.0 * grid.bound)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clip_that_is_no_length_is_refused(clip):
    with pytest.raises(RangeError, match="clip"):
        ClippedGrid.around(SENT, clip)


def test_weights_that_are_no_numbers_or_lack_a_tensor_are_refused():
    grid, broken = ClippedGrid.around(SENT, 1.0), model(1)
    broken["linear.weight"][2, 3] = np.nan
    with pytest.raises(RangeError, match="NaN"):
        grid.clipped(broken)
    with pytest.raises(NetworkError, match="scale"):
        grid.clipped({name: array for name, array in model(1).items() if name != "scale"})
