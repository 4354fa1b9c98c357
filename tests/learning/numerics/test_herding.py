"""Herding against its definition, written out slowly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.herding import herd


def slow_herd(features: np.ndarray, count: int, normalised: bool = True) -> list[int]:
    unit = [row / (np.linalg.norm(row) if normalised else 1) for row in features.astype(float)]
    target = sum(unit) / len(unit)
    chosen: list[int] = []
    while len(chosen) < count:
        rest = [i for i in range(len(unit)) if i not in chosen]
        means = [(sum(unit[j] for j in chosen) + unit[i]) / (len(chosen) + 1) for i in rest]
        chosen.append(rest[int(np.argmin([np.linalg.norm(target - mean) for mean in means]))])
    return chosen


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_it_chooses_as_the_definition_says(seed: int, normalised: bool) -> None:
    features = np.random.default_rng(seed).normal(size=(12, 4))
    wanted = slow_herd(features, 7, normalised)
    assert herd(features, 7, normalised=normalised) == wanted
    assert herd(features, 7) == slow_herd(features, 7)


def test_as_printed_features_keep_their_lengths() -> None:
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 9.0]])
    assert herd(features, 1) == [1]
    assert herd(features, 1, normalised=False) == [1]
    assert herd(features, 2) == [1, 0]
    assert herd(features, 2, normalised=False) == [1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_every_choice_is_the_best_of_all_that_are_left(seed: int) -> None:
    """Equation (2) of DCID in exact fractions; every candidate of every step is tried."""
    features = np.random.default_rng(seed).integers(-9, 10, size=(9, 3))
    rows = [[Fraction(int(x)) for x in row] for row in features]
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]

    def miss(chosen: list[int]) -> Fraction:
        sums = [sum(rows[place][axis] for place in chosen) for axis in range(3)]
        return sum((m - s / len(chosen)) ** 2 for m, s in zip(mean, sums, strict=True))

    order = herd(features.astype(np.float32), 9, normalised=False)
    for step, taken in enumerate(order):
        others = [place for place in range(9) if place not in order[:step]]
        misses = {place: miss([*order[:step], place]) for place in others}
        assert misses[taken] == min(misses.values())


def share_of_better(seed: int, count: int) -> float:
    """Return how many of all choices of so many samples have a nearer mean than herding's."""
    features = np.random.default_rng(seed).normal(size=(9, 3))

    def miss(rows: Sequence[int]) -> float:
        return float(np.linalg.norm(features.mean(0) - features[list(rows)].mean(0)))

    found = miss(sorted(herd(features, count, normalised=False)))
    every = itertools.combinations(range(9), count)
    return float(np.mean([miss(rows) < found for rows in every]))


def test_one_sample_is_the_best_of_all_and_a_few_are_among_the_best() -> None:
    assert [share_of_better(seed, 1) for seed in range(20)] == [0] * 20
    for count in (2, 3, 4):
        shares = [share_of_better(seed, count) for seed in range(20)]
        assert np.mean(shares) < 0.1
        assert max(shares) < 0.25


def test_a_prefix_is_the_list_of_fewer_and_no_sample_comes_twice() -> None:
    features = np.random.default_rng(0).normal(size=(30, 5))
    whole = herd(features, 30)
    assert sorted(whole) == list(range(30))
    assert herd(features, 9) == whole[:9]


def test_its_mean_is_nearly_as_close_as_that_of_the_best_choice_of_all() -> None:
    features = np.random.default_rng(2).normal(size=(10, 3))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)

    def distance(rows: list[int]) -> float:
        return float(np.linalg.norm(unit.mean(0) - unit[rows].mean(0)))

    every = sorted(distance(list(rows)) for rows in itertools.combinations(range(10), 4))
    assert distance(herd(features, 4)) <= np.quantile(every, 0.1)


def test_there_may_be_fewer_samples_than_wanted_or_none() -> None:
    assert herd(np.ones((2, 3)), 5) == [0, 1]
    assert herd(np.empty((0, 3)), 5) == []


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(FeatureError, match="finite"):
        herd(np.array([[np.nan, 1.0]]), 1)
