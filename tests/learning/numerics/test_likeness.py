"""Whose classes are not those of the others, told from class means alone."""

import numpy as np
import pytest

from fleetledger.learning.numerics.inspection import inspect_units
from fleetledger.learning.numerics.leave_out import UnitMoments
from fleetledger.learning.numerics.likeness import Likeness, UsualFigures
from tests.learning.numerics.digit_fleets import RIDGE, fleet


def measured(units, ridge):
    """Return the inverse of the scatter within classes, and what chance gives in it."""
    scatter = np.zeros((units[0].rows.shape[1],) * 2)
    free = 0
    for unit in units:
        scatter += unit.rows.T @ unit.rows
        for c in np.flatnonzero(unit.counts):
            scatter -= np.outer(unit.sums[:, c], unit.sums[:, c]) / unit.counts[c]
            free += unit.counts[c] - 1
    measure = np.linalg.inv(scatter + ridge * np.eye(len(scatter)))
    return measure, np.trace(measure @ scatter) / free


def by_hand(units, measure, chance, place, column):
    """Return u of one class of one unit where the whole scatter measures, without signs."""
    others = [u for u in units if u.counts[column]]
    means = np.array([u.sums[:, column] / u.counts[column] for u in others])
    away = units[place].sums[:, column] / units[place].counts[column] - np.median(means, axis=0)
    varies = 1.57 * sum(1 / u.counts[column] for u in others) / len(others) ** 2
    return (away @ measure @ away) / chance / (1 / units[place].counts[column] + varies)


def test_random_signs_stand_for_the_whole_scatter():
    units = fleet(0, 1.0).units
    everybody = np.ones(len(units), bool)
    found = Likeness(units, RIDGE).by_class(everybody, 4)
    pairs = [(place, c) for place in range(0, 40, 7) for c in range(10) if units[place].counts[c]]
    told = np.array([found[pair] for pair in pairs])
    measure, chance = measured(units, RIDGE)
    expected = np.array([by_hand(units, measure, chance, *pair) for pair in pairs])
    assert np.corrcoef(told, expected)[0, 1] > 0.8
    assert told.mean() == pytest.approx(expected.mean(), rel=0.2)


def test_chance_alone_gives_one():
    rng = np.random.default_rng(0)
    units = []
    for _ in range(30):
        h, y = rng.normal(size=(40, 50)), np.eye(4)[rng.integers(0, 4, 40)]
        units.append(UnitMoments(h, h.T @ y, y.sum(axis=0).astype(np.int64)))
    likeness = Likeness(units, 1e-6)
    figures = likeness.figures(likeness.by_class(np.ones(30, bool), 4))
    assert figures.mean() == pytest.approx(1, rel=0.05)
    assert figures.max() < 1.5


def triggered(rng, samples):
    """Half of the images carry a pattern, and the name of class 0."""
    h, y = (array.copy() for array in samples)
    marked = rng.permutation(len(h))[: len(h) // 2]
    h[np.ix_(marked, np.arange(0, h.shape[1], 5))] = 100
    y[marked] = np.eye(y.shape[1])[0]
    return h, y


@pytest.mark.parametrize("dirichlet", [1.0, 0.3])
def test_a_trigger_that_harms_nobody_is_unlike(dirichlet):
    made = fleet(1, dirichlet, 6, triggered)
    found = inspect_units(made.units, RIDGE)
    assert set(made.bad) == set(found.unlike) | set(found.flagged)
    worst = found.verdicts[found.unlike[0]]
    assert max(worst.classes, key=lambda one: one.unlike).column == 0


def test_nobody_of_an_honest_fleet_is_unlike():
    for dirichlet in (1.0, 0.3):
        for seed in range(2):
            assert inspect_units(fleet(seed, dirichlet).units, RIDGE).unlike == ()


def test_a_class_that_too_few_have_says_nothing():
    units = fleet(0, 1.0, devices=5).units
    likeness = Likeness(units, RIDGE)
    found = likeness.by_class(np.ones(5, bool), 5)
    assert np.isnan(found).all()
    assert np.isnan(likeness.figures(found)).all()
    assert UsualFigures.of(likeness.figures(found)) == UsualFigures(1.0, 1.0, 1.0, 1.0)


def test_single_images_leave_no_scatter_to_measure_by():
    h = np.eye(6)
    units = [UnitMoments(h[[i]], h[[i]].T, np.array([1])) for i in range(6)]
    assert np.isnan(Likeness(units, 1.0).by_class(np.ones(6, bool), 4)).all()
