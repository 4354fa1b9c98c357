"""Means, deviations and paired differences, against the textbook's formulae and SciPy's."""

import math

import numpy as np
import pytest

from fleetledger.simulator.metrics.over_seeds import paired_difference, summary


def test_the_deviation_is_that_of_a_sample():
    of = summary([1.0, 2.0, 4.0])
    mean = 7 / 3
    variance = ((1 - mean) ** 2 + (2 - mean) ** 2 + (4 - mean) ** 2) / 2
    assert of.mean == pytest.approx(mean)
    assert of.deviation == pytest.approx(math.sqrt(variance))
    assert of.count == 3


def test_one_seed_has_no_deviation():
    assert summary([0.5]).deviation is None
    difference = paired_difference({1: 0.5}, {1: 0.75})
    assert difference is not None
    assert (difference.mean, difference.deviation, difference.low) == (0.25, None, None)
    assert not difference.is_clear


@pytest.mark.parametrize("count", [2, 3, 4, 10, 31, 1000])
def test_the_interval_is_that_of_the_paired_t_test(count: int):
    random = np.random.default_rng(count)
    first, second = random.normal(0.5, 0.1, (2, count))
    difference = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    assert difference is not None
    from scipy import stats

    interval = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (difference.low, difference.high) == pytest.approx(
        (interval.low, interval.high), rel=1e-11
    )
    assert difference.count == count


def test_what_the_draw_did_to_both_drops_out():
    first = dict(enumerate([0.1, 0.5, 0.9]))
    second = {seed: value + 0.02 for seed, value in first.items()}
    difference = paired_difference(first, second)
    assert difference is not None
    assert difference.is_clear
    assert difference.deviation == pytest.approx(0, abs=1e-12)


def test_only_shared_seeds_are_compared():
    difference = paired_difference({1: 0.5, 2: 0.6, 3: 9.0}, {2: 0.7, 1: 0.6, 8: 0.0})
    assert difference is not None
    assert difference.count == 2
    assert difference.mean == pytest.approx(0.1)
    assert paired_difference({1: 0.5}, {2: 0.5}) is None
