"""How many of a group chance explains, against the binomial distribution summed term by term."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from fleetledger.coordinator.topics.rollouts.cost_gates import most_by_chance


def slow(devices: int, share: Fraction) -> int:
    """The least number that is exceeded with a chance of 1 in 200 at most."""
    below = Fraction(0)
    for count in range(devices + 1):
        below += comb(devices, count) * share**count * (1 - share) ** (devices - count)
        if 1 - below <= Fraction(1, 200):
            return count
    raise AssertionError(devices)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 50), Fraction(3, 100), Fraction(1, 2)])
def test_what_chance_exceeds_in_one_of_two_hundred_groups(share: Fraction) -> None:
    for devices in (1, 2, 5, 6, 50, 251):
        assert most_by_chance(devices, share) == slow(devices, share)


def test_of_two_per_cent_groups_of_a_default_plan_bear_so_many() -> None:
    assert [most_by_chance(n, Fraction(1, 50)) for n in (1, 5, 50, 250, 1000)] == [1, 1, 4, 11, 32]


def test_where_everybody_may_nobody_is_too_many() -> None:
    assert most_by_chance(7, Fraction(1)) == 7
