"""E-values of paired counts: against fractions, at the threshold, and looked at after every image."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.rollouts import evalues
from coordinator.topics.rollouts.evalues import log_evidence, reaches

counts = st.integers(0, 400)


def reference(worse: int, better: int) -> Fraction:
    """The mixture's chances one image at a time: the next is foretold with (seen + 1/2)/(n + 1)."""
    evidence, seen = Fraction(1), [0, 0]
    for side in [0] * worse + [1] * better:
        evidence *= 2 * Fraction(2 * seen[side] + 1, 2 * (sum(seen) + 1))
        seen[side] += 1
    return evidence


@given(counts, counts)
def test_the_logarithm_is_that_of_the_slow_reference(worse: int, better: int) -> None:
    exact = reference(worse, better)
    expected = math.log(exact.numerator) - math.log(exact.denominator)
    assert log_evidence(worse, better) == pytest.approx(expected, abs=1e-8)


@given(counts, counts, st.integers(1, 10**6))
def test_a_threshold_is_reached_as_the_slow_reference_says(
    worse: int, better: int, threshold: int
) -> None:
    expected = worse > better and reference(worse, better) >= threshold
    assert reaches(worse, better, threshold) == expected


@pytest.mark.parametrize(("worse", "better", "threshold"), [(2, 0, 1), (1, 0, 1), (3, 1, 1)])
def test_small_counts_are_told_by_hand(worse: int, better: int, threshold: int) -> None:
    # C(4,2)/4 = 6/4, C(2,1)/2 = 1, C(6,3) C(2,1) / (16 * 4) = 40/64
    assert reference(worse, better) in {Fraction(6, 4), Fraction(1), Fraction(40, 64)}
    assert reaches(worse, better, threshold) == (reference(worse, better) >= threshold)


def test_what_reaches_a_threshold_exactly_is_decided_by_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # e(1, 0) is 1 to the last bit: an lgamma that errs a little either way changes nothing
    right = math.lgamma
    for error in (-1e-12, 0.0, 1e-12):
        monkeypatch.setattr(evalues.math, "lgamma", lambda x, e=error: right(x) * (1 + e) + e)
        assert reaches(1, 0, 1)
        assert not reaches(2, 0, 2)
        assert reaches(35, 3, math.floor(reference(35, 3)))
        assert not reaches(35, 3, math.floor(reference(35, 3)) + 1)


def test_a_better_model_is_never_shown_to_be_worse() -> None:
    assert not reaches(3, 300, 1)
    assert not reaches(0, 0, 1)
    assert not reaches(50, 50, 1)


@given(counts, counts)
def test_more_images_on_the_worse_side_never_weaken_a_proof(worse: int, better: int) -> None:
    if reaches(worse, better, 100):
        assert reaches(worse + 1, better, 100)


@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_under_equal_models_evidence_is_one_on_average(length: int) -> None:
    sides = itertools.product((0, 1), repeat=length)
    total = sum(reference(length - sum(s), sum(s)) for s in sides)
    assert total / 2**length == 1


def test_the_largest_fleet_is_judged_exactly_in_no_time() -> None:
    assert reaches(40_600, 39_000, 100) == (log_evidence(40_600, 39_000) > math.log(100))
