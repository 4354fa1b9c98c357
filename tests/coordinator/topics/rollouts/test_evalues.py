"""E-values of paired counts: against fractions, at the threshold, looked at after every image."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.rollouts.evalues import HALF, log_evidence, reaches

counts = st.integers(0, 400)
chances = st.sampled_from([HALF, Fraction(3, 10), Fraction(1, 100), Fraction(99, 100)])
ONE, HUNDRED = Fraction(1), Fraction(100)


def reference(worse: int, better: int, chance: Fraction = HALF) -> Fraction:
    """The mixture's chances one image at a time: the next is foretold with (seen + 1/2)/(n + 1)."""
    evidence, seen = Fraction(1), [0, 0]
    for side in [0] * worse + [1] * better:
        foretold = Fraction(2 * seen[side] + 1, 2 * (sum(seen) + 1))
        evidence *= foretold / (1 - chance if side else chance)
        seen[side] += 1
    return evidence


@given(counts, counts, chances)
def test_the_logarithm_is_that_of_the_slow_reference(
    worse: int, better: int, chance: Fraction
) -> None:
    exact = reference(worse, better, chance)
    expected = math.log(exact.numerator) - math.log(exact.denominator)
    assert log_evidence(worse, better, chance) == pytest.approx(expected, abs=1e-8)


@given(counts, counts, st.integers(1, 10**6), chances)
def test_a_threshold_is_reached_as_the_slow_reference_says(
    worse: int, better: int, threshold: int, chance: Fraction
) -> None:
    expected = worse > chance * (worse + better)
    expected = expected and reference(worse, better, chance) >= threshold
    assert reaches(worse, better, Fraction(threshold), chance) == expected


def test_small_counts_are_as_worked_out_by_hand() -> None:
    # C(4,2)/4 = 6/4, C(2,1)/2 = 1, C(6,3) C(2,1) / (16 * 4) = 40/64
    assert reference(2, 0) == Fraction(6, 4)
    assert reference(1, 0) == 1
    assert reference(3, 1) == Fraction(40, 64)
    assert reaches(2, 0, Fraction(6, 4))
    assert not reaches(3, 1, ONE)


@pytest.mark.parametrize("error", [-1e-12, 0.0, 1e-12])
def test_what_is_next_to_a_threshold_is_decided_alike_by_an_lgamma_that_errs(
    monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    right = math.lgamma
    monkeypatch.setattr(math, "lgamma", lambda x: right(x) * (1 + error) + error)
    for counts_at in ((1, 0), (35, 3), (900, 760), (2, 0)):
        exactly = reference(*counts_at)
        assert reaches(*counts_at, exactly)
        assert not reaches(*counts_at, exactly + Fraction(1, 10**30))


def test_a_better_model_is_never_shown_to_be_worse() -> None:
    assert not reaches(3, 300, ONE)
    assert not reaches(0, 0, ONE)
    assert not reaches(50, 50, ONE)


@given(counts, counts)
def test_more_images_on_the_worse_side_never_weaken_a_proof(worse: int, better: int) -> None:
    if reaches(worse, better, HUNDRED):
        assert reaches(worse + 1, better, HUNDRED)


@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_under_equal_models_evidence_is_one_on_average(length: int) -> None:
    sides = itertools.product((0, 1), repeat=length)
    total = sum(reference(length - sum(s), sum(s)) for s in sides)
    assert total / 2**length == 1


def test_the_largest_fleet_is_judged_exactly_in_no_time() -> None:
    assert reaches(40_600, 39_000, HUNDRED) == (log_evidence(40_600, 39_000) > math.log(100))


def test_where_nothing_may_be_wrong_one_is_proof() -> None:
    assert reaches(1, 999, HUNDRED, Fraction(0))
    assert not reaches(0, 999, HUNDRED, Fraction(0))


@pytest.mark.parametrize("seed", range(3))
def test_a_fair_coin_that_is_watched_all_the_time_is_rarely_taken_for_a_false_one(
    seed: int,
) -> None:
    # on the side that counts at most one of 200; of 2,000 that is 10, with 3 standard deviations 19
    coins = np.random.default_rng(seed).integers(0, 2, size=(2000, 400), dtype=np.int64)
    worse = coins.cumsum(axis=1)
    least = [
        next((b for b in range(n + 1) if reaches(b, n - b, HUNDRED)), n + 1) for n in range(1, 401)
    ]
    assert (worse >= np.array(least)).any(axis=1).sum() <= 19
