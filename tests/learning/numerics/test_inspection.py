"""Who harms a fleet of digits, told from moments alone."""

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.learning.numerics.inspection import InspectionRules, inspect_units
from fleetledger.learning.numerics.leave_out import UnitMoments
from tests.learning.numerics.digit_fleets import (
    RIDGE,
    WIDTH,
    at_random,
    broken_camera,
    fleet,
    rotated,
)


@pytest.mark.parametrize(("dirichlet", "most"), [(1.0, 0), (0.3, 0), (0.1, 1)])
def test_of_an_honest_fleet_at_most_a_hundredth_is_flagged_and_no_camps_are_seen(dirichlet, most):
    found = [inspect_units(fleet(seed, dirichlet).units, RIDGE) for seed in range(3)]
    assert sum(len(one.flagged) for one in found) <= most
    assert all(one.camps is None for one in found)


@pytest.mark.parametrize("attack", [rotated, at_random, broken_camera])
@pytest.mark.parametrize("dirichlet", [1.0, 0.3])
def test_exactly_the_dishonest_of_a_sixth_are_flagged(attack, dirichlet):
    made = fleet(1, dirichlet, 6, attack)
    found = inspect_units(made.units, RIDGE)
    assert found.flagged == made.bad


@pytest.mark.parametrize("bad", [12, 16])
def test_many_who_lie_alike_are_flagged_with_a_warning_that_names_both_camps(bad):
    made = fleet(1, 0.3, bad, rotated)
    found = inspect_units(made.units, RIDGE)
    assert found.flagged == made.bad
    assert found.camps is not None
    assert set(made.bad) <= set(found.camps[1])
    assert not set(found.camps[0]) & set(found.camps[1])


def test_where_liars_outweigh_the_honest_there_is_a_warning():
    made = fleet(3, 0.3, 16, rotated)
    found = inspect_units(made.units, RIDGE)
    assert found.flagged != made.bad
    assert found.camps is not None
    assert set(found.camps[0]) == set(made.bad)


def test_harm_is_told_by_class():
    def threes_told_as_eights(rng, samples):
        labels = samples[1].copy()
        threes = labels[:, 3] == 1
        labels[threes] = np.eye(10)[8]
        return samples[0], labels

    made = fleet(0, 0.3, 6, threes_told_as_eights)
    found = inspect_units(made.units, RIDGE)
    assert found.flagged
    assert set(found.flagged) <= set(made.bad)
    for place in found.flagged:
        assert [one.column for one in found.verdicts[place].classes if one.flagged] == [8]
        eight = next(one for one in found.verdicts[place].classes if one.column == 8)
        assert eight.harmed > 0.7 * eight.judges
        assert eight.harm > 0


def test_a_class_that_too_few_others_have_cannot_be_judged():
    made = fleet(0, 1.0, devices=8)
    (features, labels), *rest = made.samples
    wider = [(h, np.hstack([y, np.zeros((len(y), 1))])) for h, y in [(features, labels), *rest]]
    wider[0][1][:5] = np.eye(11)[10]
    units = [UnitMoments(h, h.T @ y, y.sum(axis=0).astype(np.int64)) for h, y in wider]
    verdict = inspect_units(units, RIDGE).verdicts[0]
    assert verdict.judged
    assert verdict.unjudged == (10,)
    assert 10 not in [one.column for one in verdict.classes]


def test_a_fleet_of_few_and_a_device_without_samples_are_not_judged():
    few = inspect_units(fleet(0, 1.0, devices=4).units, RIDGE)
    assert not any(one.judged for one in few.verdicts)
    units = fleet(0, 1.0, devices=9).units
    nothing = UnitMoments(np.zeros((0, WIDTH)), np.zeros((WIDTH, 10)), np.zeros(10, np.int64))
    found = inspect_units([*units, nothing], RIDGE)
    assert [one.judged for one in found.verdicts] == [True] * 9 + [False]
    assert inspect_units([], RIDGE).verdicts == ()


def test_a_model_of_some_of_the_features_finds_the_same():
    made = fleet(2, 0.3, 6, rotated)
    narrow = replace(InspectionRules(), features=WIDTH // 3)
    assert inspect_units(made.units, RIDGE, narrow).flagged == made.bad


def test_the_same_seed_gives_the_same_verdicts():
    units = fleet(0, 0.3, 6, at_random).units
    one, same = (inspect_units(units, RIDGE, seed=5) for _ in range(2))
    assert one == same
    assert one != inspect_units(units, RIDGE, seed=6)
