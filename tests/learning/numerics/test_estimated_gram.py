"""The estimate of a Gram matrix from class sums: its two forms, its mean, its error, its bias."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.estimated_gram import (
    ClassGroups,
    EstimatorRule,
    estimated_gram,
    within_scatter,
)

DIM = 6
SIZES = (3, 7, 12, 20, 8)
DRAWS = 800
RULE = EstimatorRule()
Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(size=(count, DIM)) @ MIXING + 1.5


def rectified(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.maximum(rng.normal(size=(count, DIM)) @ MIXING, 0)


MIXING = np.random.default_rng(0).normal(size=(DIM, DIM))


def groups_of(samples: np.ndarray, sizes: tuple[int, ...] = SIZES) -> ClassGroups:
    parts = np.split(samples, np.cumsum(sizes)[:-1])
    return ClassGroups(np.stack([part.sum(axis=0) for part in parts]), np.array(sizes))


def equation_9(groups: ClassGroups, counted: int) -> np.ndarray:
    """The estimate of one class as the paper prints it, coefficients below 0 set to 0."""
    total, count = groups.sums.sum(axis=0), groups.counts.sum()
    a = max(0.0, (count - 1) / (counted - 1))
    b = max(0.0, (count - counted) / ((counted - 1) * count))
    squares = sum(np.outer(row, row) / n for row, n in zip(groups.sums, groups.counts, strict=True))
    return a * squares - b * np.outer(total, total)


@cache
def differences(draw: Draw, rule: EstimatorRule) -> np.ndarray:
    """Estimate minus exact Gram matrix of fresh samples, `DRAWS` times."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(DRAWS):
        samples = draw(rng, sum(SIZES))
        found.append(estimated_gram([groups_of(samples)], DIM, rule) - samples.T @ samples)
    return np.array(found)


def covariance(draw: Draw) -> np.ndarray:
    return np.cov(draw(np.random.default_rng(2), 200_000).T)


@pytest.mark.parametrize("counted", [5, 8, 60])
def test_it_is_equation_9_without_its_cancellation(counted):
    groups = groups_of(normal(np.random.default_rng(3), sum(SIZES)))
    rule = EstimatorRule(all_groups=None if counted == 5 else counted)
    expected = equation_9(groups, counted)
    made = estimated_gram([groups], DIM, rule)
    assert np.abs(made - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("draw", [normal, rectified])
def test_it_is_unbiased_whatever_the_distribution(draw):
    found = differences(draw, RULE)
    error = found.std(axis=0) / np.sqrt(DRAWS)
    assert np.abs(found.mean(axis=0) / error).max() < 4


def test_its_squared_error_is_the_closed_form():
    found = differences(normal, RULE)
    sigma = MIXING.T @ MIXING
    count, holders = sum(SIZES), len(SIZES)
    factor = (count - holders) * (count - 1) / (holders - 1)
    expected = factor * ((sigma**2).sum() + np.trace(sigma) ** 2)
    assert (found**2).sum(axis=(1, 2)).mean() == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("draw", [normal, rectified])
def test_counting_groups_without_the_class_loses_the_predicted_share_of_its_scatter(draw):
    everyone = 8
    count, holders = sum(SIZES), len(SIZES)
    kept = ((count - 1) * holders - (count - everyone)) / ((everyone - 1) * count)
    sigma = covariance(draw)
    lost = -differences(draw, EstimatorRule(all_groups=everyone)).mean(axis=0)
    assert kept == pytest.approx(0.580, abs=1e-3)
    assert np.trace(lost) / (count * np.trace(sigma)) == pytest.approx(1 - kept, abs=0.03)


def test_classes_that_some_groups_lack_are_estimated_without_bias_together():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(DRAWS):
        all_held, some = normal(rng, sum(SIZES)), rectified(rng, 11)
        classes = [groups_of(all_held), groups_of(some, (2, 9))]
        exact = all_held.T @ all_held + some.T @ some
        found.append(estimated_gram(classes, DIM, RULE) - exact)
    error = np.std(found, axis=0) / np.sqrt(DRAWS)
    assert np.abs(np.mean(found, axis=0) / error).max() < 4


def test_it_is_exact_when_every_sample_is_a_group():
    samples = rectified(np.random.default_rng(5), 9)
    made = estimated_gram([groups_of(samples, (1,) * 9)], DIM, RULE)
    assert np.allclose(made, samples.T @ samples, rtol=1e-13)


def test_it_is_symmetric_and_never_negative_definite():
    samples = normal(np.random.default_rng(6), 40)
    for rule in (RULE, EstimatorRule(all_groups=90)):
        made = estimated_gram([groups_of(samples, (1, 30, 2, 7))], DIM, rule)
        assert np.array_equal(made, made.T)
        assert np.linalg.eigvalsh(made).min() > -1e-9 * np.abs(made).max()


def test_a_lone_holder_is_given_the_covariance_of_the_others_or_none():
    rng = np.random.default_rng(7)
    one, two = groups_of(normal(rng, 50)), groups_of(normal(rng, 20), (5, 5, 10))
    lone = groups_of(normal(rng, 9), (9,))
    rank_one = np.outer(lone.sums[0], lone.sums[0]) / 9
    without = estimated_gram([one, two], DIM, RULE)
    zero = estimated_gram([one, lone, two], DIM, EstimatorRule("zero"))
    assert np.allclose(zero, without + rank_one, rtol=1e-12)
    scatter = sum(
        (group.sums / group.counts[:, None] - group.sums.sum(axis=0) / group.samples).T
        @ (
            (group.sums / group.counts[:, None] - group.sums.sum(axis=0) / group.samples)
            * group.counts[:, None]
        )
        for group in (one, two)
    )
    pooled = estimated_gram([one, lone, two], DIM, RULE)
    assert np.allclose(pooled, without + rank_one + 8 * scatter / (4 + 2), rtol=1e-12)


def test_a_lone_sample_and_a_stage_of_lone_holders_are_rank_one():
    rng = np.random.default_rng(8)
    lone, single = groups_of(normal(rng, 9), (9,)), groups_of(normal(rng, 1), (1,))
    expected = sum(np.outer(g.sums[0], g.sums[0]) / g.samples for g in (lone, single))
    assert np.allclose(estimated_gram([lone, single], DIM, RULE), expected, rtol=1e-13)
    assert not estimated_gram([], DIM, RULE).any()


def test_many_classes_are_the_sum_of_each_alone():
    rng = np.random.default_rng(9)
    classes = [groups_of(normal(rng, 40), (1,) * 30 + (5, 5)) for _ in range(90)]
    alone = sum(estimated_gram([groups], DIM, RULE) for groups in classes)
    assert np.allclose(estimated_gram(classes, DIM, RULE), alone, rtol=1e-12)


def test_groups_that_make_no_sense_are_named():
    sums = np.ones((2, DIM))
    with pytest.raises(FeatureError, match="groups: a count of 0"):
        ClassGroups(sums, np.array([3, 0]))
    with pytest.raises(FeatureError, match=r"sums \(2, 6\) and counts \(3,\)"):
        ClassGroups(sums, np.array([3, 1, 1]))


def test_the_scatter_within_classes_is_the_estimate_without_the_means():
    rng = np.random.default_rng(7)
    classes = [groups_of(normal(rng, sum(SIZES))), groups_of(rectified(rng, 9), (4, 5))]
    means = sum(np.outer(t, t) / c.samples for c in classes for t in [c.sums.sum(axis=0)])
    expected = estimated_gram(classes, DIM, RULE) - means
    assert np.allclose(within_scatter(classes, DIM), expected)


def test_a_class_of_one_group_adds_nothing_to_the_scatter_within_classes():
    rng = np.random.default_rng(8)
    lone, other = groups_of(normal(rng, 5), (5,)), groups_of(normal(rng, 9), (4, 5))
    together = within_scatter([lone, other], DIM)
    assert np.array_equal(together, within_scatter([other], DIM))
    assert not within_scatter([lone], DIM).any()
