"""Logistic regression: closed form, finite differences, another program, and what it promises."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.logistic import LogisticFit, LogisticRule, fit_logistic

RULE = LogisticRule(l2=1e-3, tolerance=1e-9, max_iterations=100)


def samples(seed: int, n: int = 90, classes: int = 4, width: int = 7) -> tuple:
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(n) % classes)
    means = random.normal(0, 30, (classes, width))
    features = np.clip(np.rint(means[labels] + random.normal(0, 30, (n, width))), -127, 127)
    return features.astype(np.int8), labels


def slow_loss(weights: np.ndarray, x: np.ndarray, labels: np.ndarray, l2: float) -> float:
    """The module's formula, one sample at a time."""
    total = 0.0
    for sample, label in zip(x, labels, strict=True):
        scores = [float(row @ sample) for row in weights]
        total += np.log(sum(exp(score) for score in scores)) - scores[label]
    return total / len(x) + l2 / 2 * float((weights**2).sum())


def numerical_gradient(weights: np.ndarray, *arguments) -> np.ndarray:
    gradient = np.zeros_like(weights)
    for place in np.ndindex(*weights.shape):
        change = np.zeros_like(weights)
        change[place] = 1e-5
        rise = slow_loss(weights + change, *arguments) - slow_loss(weights - change, *arguments)
        gradient[place] = rise / 2e-5
    return gradient


def test_two_opposite_samples_have_a_solution_in_closed_form():
    # w_0 = -w_1 = w, where l2 w (1 + e^(2 w)) = 1
    w = 0.5
    rule = replace(RULE, l2=1 / (w * (1 + exp(2 * w))), tolerance=1e-13)
    fit = fit_logistic(np.array([[1.0], [-1.0]]), np.array([0, 1]), rule)
    assert fit.converged
    assert np.allclose(fit.weights, [[w], [-w]], atol=1e-12)


@pytest.mark.parametrize("l2", [1e-1, 1e-3, 1e-5])
def test_the_gradient_is_zero_there_by_finite_differences(l2: float):
    features, labels = samples(1)
    fit = fit_logistic(features, labels, replace(RULE, l2=l2), unit=1 / 127)
    assert fit.converged
    assert np.abs(numerical_gradient(fit.weights, features / 127, labels, l2)).max() < 1e-8


def test_the_gradient_that_is_told_is_the_largest_entry_where_it_stopped():
    features, labels = samples(2)
    fit = fit_logistic(features, labels, replace(RULE, max_iterations=2), unit=1 / 127)
    assert (fit.converged, fit.iterations) == (False, 2)
    gradient = numerical_gradient(fit.weights, features / 127, labels, RULE.l2)
    assert fit.gradient == pytest.approx(np.abs(gradient).max(), rel=1e-4)
    assert fit.gradient > RULE.tolerance


@pytest.mark.parametrize(("classes", "l2"), [(2, 1e-2), (5, 1e-3), (9, 1e-4)])
def test_the_weights_are_those_of_scikit_learn(classes: int, l2: float):
    linear_model = pytest.importorskip("sklearn.linear_model")
    features, labels = samples(3, 400, classes, 12)
    fit = fit_logistic(features, labels, replace(RULE, l2=l2), unit=1 / 127)
    # with two classes scikit-learn fits their difference: half of it, twice, is penalised as here
    strength = 1 / (l2 * len(labels)) * (2 if classes == 2 else 1)
    model = linear_model.LogisticRegression(
        C=strength, fit_intercept=False, tol=1e-11, max_iter=10_000
    ).fit(features / 127.0, labels)
    ours = fit.weights[1:] - fit.weights[:1] if classes == 2 else fit.weights
    assert np.allclose(ours, model.coef_, atol=1e-4 * np.abs(model.coef_).max())


def test_integers_with_a_unit_are_the_same_samples_as_floats_of_that_size():
    features, labels = samples(4)
    whole = fit_logistic(features, labels, RULE, unit=1 / 127)
    floats = fit_logistic(features / 127, labels, RULE)
    assert np.allclose(whole.weights, floats.weights, atol=1e-7)


def test_many_blocks_of_rows_are_one_fit():
    features, labels = samples(5, n=2500)
    x = features.astype(np.float64) / 127
    fit = fit_logistic(features, labels, RULE, unit=1 / 127)
    scores = x @ fit.weights.T
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    gradient = (shares - np.eye(4)[labels]).T @ x / len(x) + RULE.l2 * fit.weights
    assert np.abs(gradient).max() < 2 * RULE.tolerance


def test_equal_samples_give_equal_bits_and_another_order_the_same_point():
    features, labels = samples(6)
    first, again = (fit_logistic(features, labels, RULE, unit=1 / 127) for _ in range(2))
    assert np.array_equal(first.weights, again.weights)
    other = fit_logistic(features[::-1].copy(), labels[::-1], RULE, unit=1 / 127)
    assert np.allclose(first.weights, other.weights, atol=1e-6)


def test_classes_far_apart_and_hardly_penalised_are_fitted_all_the_same():
    features, labels = samples(7, n=40)
    far = features.astype(np.float64) * 50
    fit = fit_logistic(far, labels, replace(RULE, l2=1e-6, tolerance=1e-7))
    assert fit.converged
    assert ((far @ fit.weights.T).argmax(axis=1) == labels).all()


def test_no_class_is_preferred_beyond_its_samples():
    features, labels = samples(8)
    fit = fit_logistic(features, labels, RULE, unit=1 / 127)
    assert np.allclose(fit.weights.sum(axis=0), 0, atol=1e-7)


def test_a_single_class_needs_no_weights():
    fit = fit_logistic(np.ones((3, 2)), np.zeros(3, np.int64), RULE)
    assert isinstance(fit, LogisticFit)
    assert (fit.converged, fit.iterations, fit.gradient) == (True, 0, 0.0)
    assert not fit.weights.any()


def test_a_tolerance_below_rounding_errors_ends_without_a_claim():
    features, labels = samples(9)
    rule = replace(RULE, tolerance=1e-30, max_iterations=30)
    fit = fit_logistic(features, labels, rule, unit=1 / 127)
    assert not fit.converged
    assert 0 < fit.gradient < 1e-12


@pytest.mark.parametrize(
    ("shape", "classes", "told"),
    [
        ((3, 2), [0, 1], "give .n, M. and .n,."),
        ((0, 2), [], "n >= 1"),
        ((3,), [0, 1, 0], "give .n, M."),
        ((3, 2), [0, 2, 0], "0 to 2, and not all of them occur"),
        ((2, 2), [-1, 0], "-1 to 0, and not all"),
    ],
)
def test_samples_and_classes_that_do_not_fit_are_refused(shape, classes, told):
    with pytest.raises(FeatureError, match=told):
        fit_logistic(np.ones(shape), np.array(classes, np.int64), RULE)
