"""Draws around a class's mean: their moments, their range, and that they repeat."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.learning.numerics.gaussian_draws import diagonal_moments, draw_features


def test_moments_from_sums_are_those_of_the_samples():
    h = np.random.default_rng(1).integers(-127, 128, (57, 9)).astype(np.float64)
    mean, variance = diagonal_moments(len(h), h.sum(axis=0), (h**2).sum(axis=0))
    assert np.allclose(mean, h.mean(axis=0), rtol=1e-12)
    assert np.allclose(variance, h.var(axis=0, ddof=1), rtol=1e-10)


@pytest.mark.parametrize("count", [1, 5])
def test_equal_samples_have_no_variance(count: int):
    h = np.array([3.0, -127.0, 0.0])
    mean, variance = diagonal_moments(count, count * h, count * h**2)
    assert np.array_equal(mean, h)
    assert not variance.any()
    assert np.array_equal(draw_features(mean, variance, 4, b"x"), np.tile(h, (4, 1)))


def test_draws_have_the_moments_that_were_asked_for():
    mean, variance = np.array([0.0, -40.0, 60.0]), np.array([100.0, 25.0, 400.0])
    drawn = draw_features(mean, variance, 20_000, b"seed").astype(np.float64)
    assert np.allclose(drawn.mean(axis=0), mean, atol=0.5)
    assert np.allclose(drawn.var(axis=0), variance + 1 / 12, rtol=0.05)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.03


def test_draws_are_integers_in_the_range_of_features():
    drawn = draw_features(np.array([-120.0, 120.0]), np.array([900.0, 900.0]), 500, b"seed")
    assert drawn.dtype == np.int8
    assert (drawn.min(), drawn.max()) == (-127, 127)


def test_a_seed_gives_the_same_draws_and_another_seed_others():
    moments = np.zeros(5), np.full(5, 50.0)
    one = draw_features(*moments, 10, b"one")
    assert np.array_equal(one, draw_features(*moments, 10, b"one"))
    assert not np.array_equal(one, draw_features(*moments, 10, b"two"))
