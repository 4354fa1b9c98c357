"""Exemplars nearest to their class's mean, and how many of each class a memory holds."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics.exemplars import exemplar_count, nearest_to_mean, shrunk

FEATURES = np.random.default_rng(2).normal(size=(23, 5)).astype(np.float32)


def slowly(features, count):
    """Return what equation 6 says, in exact fractions, one sample at a time."""
    rows = [[Fraction(float(x)) for x in row] for row in features]
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    distances = [sum((x - m) ** 2 for x, m in zip(row, mean, strict=True)) for row in rows]
    return sorted(range(len(rows)), key=lambda row: (distances[row], row))[:count]


@pytest.mark.parametrize("count", [0, 1, 5, 23, 40])
def test_the_nearest_come_first(count):
    assert nearest_to_mean(FEATURES, count) == slowly(FEATURES, count)


def test_fewer_are_a_prefix_of_more():
    assert nearest_to_mean(FEATURES, 9)[:4] == nearest_to_mean(FEATURES, 4)


def test_of_equally_near_samples_the_first_counts():
    same = np.tile(np.float32([[1, 2, 3]]), (6, 1))
    assert nearest_to_mean(same, 3) == [0, 1, 2]
    mirrored = np.float32([[2, 0], [0, 1], [-2, 0], [0, -1]])
    assert nearest_to_mean(mirrored, 4) == [1, 3, 0, 2]


def test_one_sample_is_its_own_mean_and_none_give_none():
    assert nearest_to_mean(FEATURES[:1], 3) == [0]
    assert nearest_to_mean(FEATURES[:0], 3) == []


def test_float16_features_are_measured_in_float64():
    large = np.float16([[60000, 0], [-60000, 0], [1, 1]])
    assert nearest_to_mean(large, 1) == [2]


@pytest.mark.parametrize(
    "features", [np.zeros(3), np.full((2, 2), np.nan), np.full((1, 1), np.inf)]
)
def test_features_that_have_no_distance_are_refused(features):
    with pytest.raises(FeatureError, match="give finite numbers"):
        nearest_to_mean(features, 1)


@pytest.mark.parametrize("ratio", [0.2, 0.07, 0.1, 0.3, 1.0, 1e-9])
def test_a_share_is_rounded_up_as_it_is_written(ratio):
    parts = Fraction(repr(ratio))
    for samples in (0, 1, 5, 10, 15, 30, 100, 999):
        assert exemplar_count(samples, ratio) == ceil(parts * samples)
    assert exemplar_count(100, 0.07) == 7  # in binary 0.07 * 100 is more than 7


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.1, float("nan")])
def test_a_ratio_that_is_none_is_refused(ratio):
    with pytest.raises(RangeError, match="ratio: "):
        exemplar_count(10, ratio)


def test_a_memory_that_is_large_enough_keeps_all():
    assert shrunk({"cat": 3, "dog": 4}, 7) == {"cat": 3, "dog": 4}
    assert shrunk({}, 0) == {}


@pytest.mark.parametrize("capacity", [0, 1, 7, 19, 40, 59])
def test_all_classes_shrink_in_proportion_and_the_memory_is_full(capacity):
    counts = {"ant": 30, "bee": 20, "cat": 1, "dog": 9}
    smaller = shrunk(counts, capacity)
    assert list(smaller) == list(counts)
    assert sum(smaller.values()) == capacity
    for name, count in counts.items():
        assert abs(smaller[name] - Fraction(count * capacity, 60)) < 1


def test_of_equal_remainders_the_first_class_counts():
    assert shrunk({"ant": 1, "bee": 1, "cat": 1}, 2) == {"ant": 1, "bee": 1, "cat": 0}
