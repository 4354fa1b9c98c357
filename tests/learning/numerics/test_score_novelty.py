"""Novelty of scores, against the relative Mahalanobis distance computed sample by sample."""

import numpy as np
import pytest

from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.score_novelty import ScoreNovelty

CLASSES, WIDTH = 4, 9


def drawn(count: int, classes: int = CLASSES, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    centres = np.random.default_rng(0).normal(size=(classes + 2, WIDTH)) * 3
    return centres[labels] + chance.normal(size=(count, WIDTH)), labels


def learned(
    features: np.ndarray, labels: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (M, K), agreement (K, K) and counts (K,)."""
    sums = np.stack([features[labels == c].sum(0) for c in range(labels.max() + 1)], axis=1)
    weights = solve_ridge(features.T @ features, sums, ridge)
    return weights, weights.T @ sums, np.bincount(labels)


def novelty_of(
    features: np.ndarray,
    labels: np.ndarray,
    ridge: float = 0.5,
    scale: float | np.ndarray = 1.0,
) -> tuple[ScoreNovelty, np.ndarray]:
    weights, agreement, counts = learned(features, labels, ridge)
    scales = np.ones(len(counts)) * scale
    made = ScoreNovelty.of(agreement, counts, scales, np.arange(len(counts)))
    assert made is not None
    return made, weights * scale


def slow_distances(
    scores: np.ndarray, learned: np.ndarray, labels: np.ndarray, share: np.ndarray
) -> list[float]:
    """One sample after the other; `share` is what the ridge adds to the sum of s s^T."""
    total = len(learned)
    means = [learned[labels == c].mean(0) for c in range(labels.max() + 1)]
    centre = learned.mean(0)
    within, overall = share.copy(), share.copy()
    for row, label in zip(learned, labels, strict=True):
        within += np.outer(row - means[label], row - means[label])
        overall += np.outer(row - centre, row - centre)
    first, second = np.linalg.inv(within / total), np.linalg.inv(overall / total)
    return [
        min((s - m) @ first @ (s - m) for m in means) - (s - centre) @ second @ (s - centre)
        for s in scores
    ]


@pytest.mark.parametrize("ridge", [1e-6, 0.5, 50.0])
def test_it_is_the_distance_that_the_learned_samples_give(ridge: float) -> None:
    features, labels = drawn(60)
    made, weights = novelty_of(features, labels, ridge)
    other = drawn(20, CLASSES + 2, seed=5)[0] @ weights
    share = ridge * weights.T @ weights
    distances = np.array(slow_distances(other, features @ weights, labels, share))
    expected = 1 / (1 + np.exp(-distances / (2 * np.sqrt(CLASSES))))
    np.testing.assert_allclose(made.of_scores(other), expected, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, np.array([0.5, 3.0, 1.0, 8.0])], ids=["even", "uneven"])
def test_classes_may_have_as_few_or_many_samples_as_they_like(scale: float | np.ndarray) -> None:
    """With 150, 12, 40 and 25 samples, each mean is over its own number of them."""
    features, labels = drawn(600)
    numbers = (150, 12, 40, 25)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:n] for c, n in enumerate(numbers)])
    features, labels = features[chosen], labels[chosen]
    made, weights = novelty_of(features, labels, scale=scale)
    other = drawn(30, CLASSES + 2, seed=5)[0] @ weights
    plain = weights / scale
    share = 0.5 * plain.T @ plain
    distances = np.array(slow_distances(other / scale, features @ plain, labels, share))
    expected = 1 / (1 + np.exp(-distances / (2 * np.sqrt(CLASSES))))
    np.testing.assert_allclose(made.of_scores(other), expected, atol=1e-4)


def test_learned_samples_are_at_home_in_their_class_on_average() -> None:
    features, labels = drawn(400)
    made, weights = novelty_of(features, labels, 1e-9)
    inside = (features @ weights - made.centre) @ made.within
    own = ((inside - made.means[labels]) ** 2).sum(1)
    overall = (((features @ weights - made.centre) @ made.overall) ** 2).sum(1)
    assert own.mean() - overall.mean() == pytest.approx(0, abs=1e-2)


def test_samples_of_other_classes_are_newer_than_those_that_were_learned() -> None:
    made, weights = novelty_of(*drawn(200))
    features, labels = drawn(300, CLASSES + 2, seed=7)
    found = made.of_scores(features @ weights)
    assert np.median(found[labels >= CLASSES]) > np.quantile(found[labels < CLASSES], 0.9)


def test_it_does_not_matter_by_what_scores_are_multiplied() -> None:
    features, labels = drawn(60)
    plain, weights = novelty_of(features, labels)
    scaled, other = novelty_of(features, labels, scale=7.0)
    found = scaled.of_scores(features @ other)
    np.testing.assert_allclose(found, plain.of_scores(features @ weights), atol=1e-4)


def test_scores_of_classes_without_data_do_not_count() -> None:
    features, labels = drawn(60)
    weights, agreement, counts = learned(features, labels, 0.5)
    scores = np.zeros((60, CLASSES + 2))
    rows = np.array([5, 0, 3, 1])
    scores[:, rows] = features @ weights
    scores[:, 2] = 1e6
    among = ScoreNovelty.of(agreement, counts, np.ones(CLASSES), rows)
    alone, _ = novelty_of(features, labels)
    assert among is not None
    np.testing.assert_allclose(among.of_scores(scores), alone.of_scores(scores[:, rows]))


@pytest.mark.parametrize(
    ("agreement", "counts"),
    [
        (np.ones((1, 1)), [3]),
        (np.ones((2, 2)), [2, 2]),
        (np.array([[1.0, 0.0], [0.0, -1.0]]), [2, 2]),
        (np.array([[np.nan, 0.0], [0.0, 1.0]]), [2, 2]),
        (np.diag([9.999, 9.999]), [10, 10]),
    ],
    ids=[
        "one class",
        "scores that are one another's",
        "an estimate that is none",
        "no numbers",
        "a head that fits its samples closely",
    ],
)
def test_sums_that_leave_no_covariance_give_none(agreement: np.ndarray, counts: list[int]) -> None:
    rows = np.arange(len(counts))
    assert ScoreNovelty.of(agreement, np.array(counts), np.ones(len(counts)), rows) is None
