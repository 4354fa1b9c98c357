"""Figures of influence against models that are solved sample by sample."""

from math import inf, sqrt

import numpy as np
import pytest

from fleetledger.learning.errors import SingularError
from fleetledger.learning.numerics.influence import Influence, Moments, OthersModel
from fleetledger.learning.numerics.ridge import solve_ridge

RIDGE = 30.0
NEVER, ALWAYS = Influence(0.0, 0.0, 0.0), Influence(inf, inf, inf)


def samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 9, (count, 7)).astype(float), np.eye(3)[rng.integers(0, 3, count)]


def moments(h: np.ndarray, y: np.ndarray) -> Moments:
    return Moments(h.T @ h, h.T @ y, len(h))


@pytest.mark.parametrize("count", [1, 4, 40])
def test_figures_are_those_of_samples_scored_by_both_models(count):
    (h0, y0), (h, y) = samples(50, 1), samples(count, 2)
    before = np.linalg.solve(h0.T @ h0 + RIDGE * np.eye(7), h0.T @ y0)
    both, told = np.concatenate([h0, h]), np.concatenate([y0, y])
    after = np.linalg.solve(both.T @ both + RIDGE * np.eye(7), both.T @ told)
    found = OthersModel(moments(h0, y0), RIDGE).influence(moments(h, y), NEVER)
    assert found.residual == pytest.approx(np.square(h @ before - y).sum() / count)
    move = np.square(h0 @ (after - before)).sum() / 50
    assert found.move == pytest.approx(move)
    gram = h0.T @ h0
    freedom = np.trace(gram @ np.linalg.inv(gram + RIDGE * np.eye(7)))
    chance = sqrt(1 + freedom / count)  # the trace is estimated by random signs
    assert found.pull == pytest.approx(sqrt(move) * (50 + count) / count / chance, rel=0.05)


def test_figures_within_the_bounds_are_themselves_bounds():
    (h0, y0), (h, y) = samples(50, 1), samples(9, 2)
    model = OthersModel(moments(h0, y0), RIDGE)
    exact, quick = (model.influence(moments(h, y), most) for most in (NEVER, ALWAYS))
    assert quick.residual == exact.residual
    assert exact.move <= quick.move < 3 * exact.move
    assert quick.within(ALWAYS)
    assert not quick.within(NEVER)


def test_wrong_labels_told_with_certainty_have_a_residual_of_two_and_unknown_classes_of_one():
    h0, y0 = np.eye(4) * 100, np.eye(4)[[0, 1, 2, 2]]
    model = OthersModel(moments(h0, y0), 1e-6)
    wrong = Moments(h0[:1].T @ h0[:1], h0[:1].T @ np.eye(4)[[1]], 1)
    assert model.influence(wrong, ALWAYS).residual == pytest.approx(2.0)
    strange = np.eye(5)[4:] * 100
    wider = OthersModel(Moments(np.diag([1e4] * 4 + [0]), np.eye(5, 4) * 100, 4), 1e-6)
    unknown = Moments(strange.T @ strange, strange.T @ np.eye(4)[[3]], 1)
    assert wider.influence(unknown, ALWAYS).residual == pytest.approx(1.0)


def test_others_without_a_stable_solution_are_named():
    with pytest.raises(SingularError, match="not positive definite"):
        OthersModel(Moments(-np.eye(3), np.zeros((3, 2)), 5), 0.5)


def test_factor_and_solutions_of_a_ridge_are_those_of_the_whole_solve():
    (h, y) = samples(90, 5)
    found = OthersModel(moments(h, y), RIDGE)
    assert np.allclose(found.weights, solve_ridge(h.T @ h, h.T @ y, RIDGE))


def test_moments_without_a_part_are_those_of_the_other_samples():
    (h, y), (h0, y0) = samples(90, 6), samples(20, 7)
    both, told = np.concatenate([h, h0]), np.concatenate([y, y0])
    rest = moments(both, told).without(moments(h0, y0))
    assert np.array_equal(rest.gram, h.T @ h)
    assert np.array_equal(rest.sums, h.T @ y)
    assert rest.samples == 90


@pytest.mark.parametrize("width", [40, 130])
def test_figures_of_wide_features_are_those_of_whole_solutions_by_lapack(width):
    """Four digits of them are recorded."""
    rng = np.random.default_rng(width)
    h0, h = (rng.integers(-127, 128, (count, width)).astype(float) for count in (90, 30))
    y0, y = (np.eye(4)[rng.integers(0, 4, len(rows))] for rows in (h0, h))
    found = OthersModel(moments(h0, y0), RIDGE).influence(moments(h, y), NEVER)
    before = np.linalg.solve(h0.T @ h0 + RIDGE * np.eye(width), h0.T @ y0)
    both, told = np.concatenate([h0, h]), np.concatenate([y0, y])
    after = np.linalg.solve(both.T @ both + RIDGE * np.eye(width), both.T @ told)
    assert found.residual == pytest.approx(np.square(h @ before - y).sum() / 30, rel=1e-8)
    assert found.move == pytest.approx(np.square(h0 @ (after - before)).sum() / 90, rel=1e-8)
