"""Values of devices in order: what more than half of them say, and what rests on one of them."""

from __future__ import annotations

from fractions import Fraction
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.topics.rollouts.ranking import Ranking, of_one
from fleetledger.schemas.values import DeviceId
from tests.coordinator.topics.rollouts.reports import device

LIMIT = Fraction(2)
VALUES = st.lists(st.integers(0, 4).map(Fraction), min_size=1, max_size=9)


def ranking(values: list[Fraction]) -> Ranking:
    found = Ranking()
    for number, value in enumerate(values):
        found.add(value, device(number))
    return found


def exceeds(values: list[Fraction]) -> bool:
    return 2 * sum(value > LIMIT for value in values) > len(values)


@given(VALUES)
def test_more_than_half_above_a_limit_exceed_it(values: list[Fraction]) -> None:
    found = ranking(values)
    assert found.median == median_low(values)
    assert found.mean == sum(values) / len(values)
    assert found.exceeds(LIMIT) == exceeds(values)


@given(VALUES)
def test_what_one_device_would_turn_round_names_such_a_device(values: list[Fraction]) -> None:
    """Against the slow way: leave each out, and look again."""
    turns: set[DeviceId] = set()
    for number in range(len(values)):
        others = values[:number] + values[number + 1 :]
        if exceeds(others) != exceeds(values):
            turns.add(device(number))
    if len(values) == 1 and not exceeds(values):
        turns = set()
    found = ranking(values)
    named = found.rests_on(LIMIT)
    assert named in turns if turns else named is None
    expected = "fail" if exceeds(values) else "inconclusive" if turns else "pass"
    assert found.outcome(LIMIT) == expected


@given(VALUES)
def test_the_worst_mean_is_that_without_the_lowest(values: list[Fraction]) -> None:
    others = sorted(values)[1:] or values
    assert ranking(values).worst_mean == max(sum(values) / len(values), sum(others) / len(others))


def test_what_is_cut_off_is_too_little_to_matter_and_never_exceeds_a_limit() -> None:
    third = Fraction(1, 3)
    found = ranking([third, third])
    assert third - Fraction(1, 2**31) < found.median <= third
    assert not found.exceeds(third)
    assert found.exceeds(third - Fraction(1, 2**31))


@pytest.mark.parametrize(("alone", "text"), [(None, ""), (device(3), " Without dev-0003 it")])
def test_a_device_on_which_all_rests_is_named(alone: DeviceId | None, text: str) -> None:
    assert of_one(alone).startswith(text)
    assert bool(of_one(alone)) == (alone is not None)


def test_nothing_exceeds_a_limit_where_nobody_is() -> None:
    assert not Ranking().exceeds(Fraction(0))
    assert Ranking().rests_on(Fraction(0)) is None
