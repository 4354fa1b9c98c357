"""Corrections of a head against the papers' equations, written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fleetledger.learning.numerics.head_correction import PULL, aligned, fitted_bias

ROWS = np.random.default_rng(5).normal(size=(6, 7)).astype(np.float32)


@pytest.mark.parametrize("old", range(1, 6))
def test_new_rows_become_as_long_as_old_ones_on_average(old: int) -> None:
    made = aligned(ROWS, old)
    norms = [float(np.sqrt(sum(float(x) ** 2 for x in row))) for row in ROWS]
    gamma = np.mean(norms[:old]) / np.mean(norms[old:])
    assert np.array_equal(made[:old], ROWS[:old])
    assert made[old:] == pytest.approx(gamma * ROWS[old:], rel=1e-6)
    after = np.linalg.norm(made.astype(float), axis=1)
    assert after[:old].mean() == pytest.approx(after[old:].mean(), rel=1e-6)


@pytest.mark.parametrize("old", [0, 6])
def test_rows_of_one_side_alone_stay(old: int) -> None:
    assert np.array_equal(aligned(ROWS, old), ROWS)


def test_new_rows_of_zeros_stay() -> None:
    rows = ROWS.copy()
    rows[4:] = 0
    assert np.array_equal(aligned(rows, 4), rows)


def slow_loss(point: np.ndarray, scores: np.ndarray, targets: np.ndarray, old: int) -> float:
    """L_b with its pull, sample by sample."""
    alpha, beta = point
    total = 0.0
    for row, target in zip(scores, targets, strict=True):
        q = [o if k < old else alpha * o + beta for k, o in enumerate(row)]
        total -= q[target] - np.log(np.exp(q).sum())
    return total / len(scores) + PULL / 2 * ((alpha - 1) ** 2 + beta**2)


@pytest.mark.parametrize("seed", range(4))
def test_two_numbers_correct_the_scores_of_new_classes(seed: int) -> None:
    random = np.random.default_rng(seed)
    targets = random.integers(0, 6, 60)
    scores = 2 * np.eye(6)[targets] + random.normal(size=(60, 6))
    scores[:, 4:] = 1.7 * scores[:, 4:] + 2.5  # what leans towards new classes
    found = fitted_bias(scores.astype(np.float32), targets, 4)
    wanted = minimize(
        slow_loss,
        [1.0, 0.0],
        (scores.astype(np.float32), targets, 4),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12},
    ).x
    assert found == pytest.approx(wanted, abs=1e-5)
    assert found[1] < 0


def test_samples_that_are_told_apart_by_any_number_have_a_finite_correction() -> None:
    scores = np.array([[5.0, -5.0], [-5.0, 5.0]])
    assert np.isfinite(fitted_bias(scores, np.array([0, 1]), 1)).all()
