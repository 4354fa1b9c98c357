"""The pooled head: what is fitted, against slow accounts of it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.pooled.aggregate import PooledAggregate
from fleetledger.methods.pooled.coordinator import COORDINATOR
from fleetledger.methods.statistics.linear_head import LinearHead
from tests.methods.pooled.making import (
    FEATURES,
    MOMENTS,
    dealt_by_four,
    part_of,
    parts_of,
    solved,
    summed,
)
from tests.methods.samples import NAMES, WIDTH, Samples, make_samples, shares


def slow_gradient(head: LinearHead, samples: Samples, l2: float) -> np.ndarray:
    """The gradient of the mean loss at a head, one sample at a time, for features up to 1."""
    weights = head.weights.astype(np.float64) * 127
    gradient = l2 * weights
    for features, label in zip(samples.features, samples.labels, strict=True):
        x = features.astype(np.float64) / 127
        scores = weights @ x
        shares_of = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        shares_of[NAMES.index(label)] -= 1
        gradient += np.outer(shares_of, x) / len(samples.labels)
    return gradient


def right(head: LinearHead, samples: Samples) -> float:
    answers = head.predict(samples.features)
    return float(np.mean([a == b for a, b in zip(answers, samples.labels, strict=True)]))


@pytest.mark.parametrize("l2", [1e-2, 3e-4])
def test_the_head_is_where_the_slow_gradient_of_all_samples_is_zero(l2: float):
    samples = make_samples(1)
    told = COORDINATOR.assign({"l2": l2}, WIDTH)
    head = solved(told, summed(told, parts_of(told, samples, shares(samples, 7, 0))))
    assert head.weights.dtype == np.float32
    assert head.remarks == ()
    assert np.abs(slow_gradient(head, samples, l2)).max() < 2e-6
    assert right(head, make_samples(2)) > 0.9


def test_the_head_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    samples = make_samples(3)
    told = COORDINATOR.assign({"l2": 1e-3, "tolerance": 1e-9}, WIDTH)
    model = linear_model.LogisticRegression(
        C=1 / (1e-3 * 160), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(samples.features.astype(np.float64) / 127, samples.labels)
    ours = solved(told, part_of(told, samples)).weights * 127
    assert np.allclose(ours, model.coef_, atol=1e-4 * np.abs(model.coef_).max())


def test_scores_are_log_odds_that_need_no_scale():
    told = COORDINATOR.assign({"max_samples_per_part": 2000}, WIDTH)
    head = solved(told, part_of(told, make_samples(4, 2000, spread=45)))
    new = make_samples(5, 800, spread=45)
    scores = head.scores(new.features)
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    sure = (likely / likely.sum(axis=1, keepdims=True)).max(axis=1)
    assert told.settings.logit_scale == 1.0
    assert abs(sure.mean() - right(head, new)) < 0.05


def test_from_moments_the_head_is_fitted_to_draws_around_the_means():
    samples = make_samples(6)
    told = COORDINATOR.assign(
        {"publish": "moments", "moments_minimum": 4, "draws_per_class": 50, "l2": 1e-2}, WIDTH
    )
    parts = parts_of(told, samples, dealt_by_four(samples, 5, 0))
    total = summed(told, parts)
    labels, drawn = np.array(samples.labels), []
    for name in NAMES:
        own = samples.features[labels == name].astype(np.float64)
        drawn.append(total.rows(name, 50))
        assert drawn[-1].shape == (50, WIDTH)
        assert np.allclose(drawn[-1].mean(axis=0), own.mean(axis=0), atol=5 * own.std() / 50**0.5)
    head = solved(told, total)
    labels_drawn = [name for name in NAMES for _ in range(50)]
    pooled = Samples(np.concatenate(drawn).astype(np.float32), labels_drawn)
    assert np.abs(slow_gradient(head, pooled, 1e-2)).max() < 2e-6
    assert right(head, make_samples(7)) > 0.9


def test_draws_come_from_a_classs_own_numbers_and_from_no_name():
    samples = make_samples(8)
    total = part_of(MOMENTS, samples)
    own = samples.features[np.array(samples.labels) == "cat"].astype(np.float64)
    renamed = total.renamed({NAMES[0]: NAMES[0] + " one"})
    assert np.array_equal(renamed.rows(NAMES[0] + " one", 9), total.rows(NAMES[0], 9))
    assert not np.array_equal(total.rows(NAMES[1], 9), total.rows(NAMES[0], 9))
    standard = (total.rows(NAMES[0], 500) - own.mean(axis=0)) / own.std(axis=0, ddof=1)
    assert abs(standard.mean()) < 0.05
    assert abs(standard.std() - 1) < 0.05


def test_a_head_that_is_not_fitted_to_the_end_is_used_and_says_so():
    told = COORDINATOR.assign({"max_iterations": 1}, WIDTH)
    head = solved(told, part_of(told, make_samples(9)))
    assert head.weights.any()
    assert len(head.remarks) == 1
    assert "after 1 step, tolerance is 1.0e-06" in head.remarks[0]


def test_classes_without_data_have_rows_of_zeros_that_never_win():
    samples = make_samples(10)
    head = COORDINATOR.solve(FEATURES, part_of(FEATURES, samples), ("ant", *NAMES))
    assert not head.weights[0].any()
    assert "ant" not in head.predict(samples.features)
    assert not solved(FEATURES, PooledAggregate.empty(FEATURES)).weights.any()
    with pytest.raises(MethodError, match="'fox' has data but no index"):
        COORDINATOR.solve(FEATURES, part_of(FEATURES, samples), NAMES[:3])


@pytest.mark.parametrize("publish", ["features", "moments"])
def test_the_memory_that_is_counted_holds_what_a_fit_takes(publish: str):
    told = COORDINATOR.assign(
        {"publish": publish, "max_samples_per_part": 4000, "draws_per_class": 900}, 400
    )
    random = np.random.default_rng(1)
    labels = [NAMES[i % 4] for i in range(3600)]
    features = np.rint(random.normal(0, 20, (3600, 400))).clip(-127, 127).astype(np.float32)
    total = part_of(told, Samples(features, labels))
    tracemalloc.start()
    solved(told, total)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stated = 3 * 3600 * 400 + 8 * 8 * 3600 * 4 + 8 * 12 * 4 * 400
    blocks = 2 * 8 * 1024 * 400  # of float64, one at a time
    assert 0.3 * stated < peak < stated + blocks


def test_a_fleet_that_needs_more_memory_than_is_allowed_is_refused_in_words():
    told = COORDINATOR.assign({"memory_megabytes": 1, "max_samples_per_part": 10_000}, 200)
    features = np.rint(np.random.default_rng(2).normal(0, 20, (3000, 200))).astype(np.float32)
    part = part_of(told, Samples(features, [NAMES[i % 4] for i in range(3000)]))
    with pytest.raises(
        MethodError, match="a head of 4 classes from 3,000 samples of 200 features takes 3:"
    ):
        solved(told, part)
    with pytest.raises(MethodError, match="features of 6000 samples take 2: let a new lineage"):
        part + part


def test_memory_for_moments_grows_with_classes_and_not_with_the_fleet():
    told = COORDINATOR.assign({"publish": "moments", "memory_megabytes": 1}, 200)
    features = np.rint(np.random.default_rng(3).normal(0, 20, (1000, 200))).astype(np.float32)
    part = part_of(told, Samples(features, [NAMES[i % 4] for i in range(1000)]))
    many = summed(told, [part] * 50)
    assert many.samples == dict.fromkeys(NAMES, 12_500)
    assert solved(told, many).weights.any()
