"""Near names are those that a slow comparison of all with all finds."""

from __future__ import annotations

import time
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.topics.stages.name_checks import NearNames, distance

WORDS = st.text("abcR1 _", max_size=10)


def slow(one: str, other: str) -> int:
    """Optimal string alignment, by its definition."""

    @lru_cache(None)
    def of(i: int, j: int) -> int:
        if min(i, j) == 0:
            return max(i, j)
        changed = of(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        best = min(of(i - 1, j) + 1, of(i, j - 1) + 1, changed)
        if min(i, j) > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
            best = min(best, of(i - 2, j - 2) + 1)
        return best

    return of(len(one), len(other))


@given(WORDS, WORDS)
def test_the_distance_is_that_of_its_definition(one: str, other: str) -> None:
    assert distance(one, other) == slow(one, other)


@given(st.lists(WORDS, max_size=8, unique=True), WORDS)
def test_no_near_name_is_missed_by_looking_up_what_is_left(names: list[str], name: str) -> None:
    together = NearNames(names).near(name)
    assert together == sorted(other for other in names if NearNames([other]).near(name))
    for other in names:
        short = min(len(name), len(other))
        same_digits = any(letter in name + other for letter in "1R _")
        if not same_digits and short >= 4 and slow(name, other) == 1:
            assert other in together


@pytest.mark.parametrize(
    ("name", "others", "near"),
    [
        ("rosee", ["rose"], ["rose"]),
        ("rsoe", ["rose"], ["rose"]),
        ("Apple", ["apple"], ["apple"]),
        ("red apple", ["Red_Apple"], ["Red_Apple"]),
        ("chrysantemun", ["chrysanthemum"], ["chrysanthemum"]),
        ("cat", ["bat", "car"], []),
        ("gate 12", ["gate 13", "gate 1"], []),
        ("n01440764", ["n01440765"], []),
        ("rose", ["tulip", "rose"], []),
    ],
)
def test_typing_errors_are_near_and_series_and_short_words_are_not(
    name: str, others: list[str], near: list[str]
) -> None:
    assert NearNames(others).near(name) == near


def test_a_thousand_names_among_four_thousand_cost_seconds_at_most() -> None:
    began = time.process_time()
    near = NearNames(f"flower kind {number:04x}" for number in range(4000))
    for number in range(1000):
        near.near(f"flower sort {number:04x}")
    assert time.process_time() - began < 20
