"""E-values of devices: against plain fractions, at the threshold, looked at after every device."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.topics.rollouts import evalues
from fleetledger.coordinator.topics.rollouts.evalues import (
    fewest,
    images_reach,
    log_evidence,
    log_evidence_of_images,
    mirrored,
    net_loss,
    reaches,
    reaches_but_for_one,
    reaches_in_spite_of_one,
    shortfall,
    signs,
)

TWO_HUNDRED = Fraction(200)
POINTS = st.integers(-20, 20).map(lambda value: Fraction(value, 20))
FLEETS = st.lists(POINTS, max_size=40).map(Counter)
SHARES = st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 10)])


def reference(losses: Counter[Fraction], liars: Fraction = Fraction(0)) -> Fraction:
    """One device after the other, in plain fractions."""
    capitals = []
    for stake in (Fraction(1, 5), Fraction(1, 2), Fraction(4, 5)):
        capital = Fraction(1)
        for z in losses.elements():
            capital *= (1 + stake * z) / (1 + stake * liars)
        capitals.append(capital)
    return sum(capitals, Fraction(0)) / 3


@given(FLEETS, SHARES)
def test_the_logarithm_is_that_of_the_slow_reference(
    losses: Counter[Fraction], liars: Fraction
) -> None:
    exact = reference(losses, liars)
    expected = math.log(exact.numerator) - math.log(exact.denominator)
    assert log_evidence(losses, liars) == pytest.approx(expected, abs=1e-9)


@given(FLEETS, SHARES, st.integers(-2, 2))
def test_a_threshold_is_reached_as_the_slow_reference_says(
    losses: Counter[Fraction], liars: Fraction, off: int
) -> None:
    exact = reference(losses, liars)
    threshold = exact * (1 + Fraction(off, 10**9))
    assert reaches(losses, threshold, liars) == (exact >= threshold)


@pytest.mark.parametrize("error", [-1e-9, 0.0, 1e-9])
def test_what_is_next_to_a_threshold_is_decided_alike_by_a_logarithm_that_errs(
    monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    losses = Counter({Fraction(1, 2): 7, Fraction(-1, 4): 3, Fraction(1): 2})
    exactly = reference(losses)
    monkeypatch.setattr(evalues, "log_evidence", lambda *_: math.log(exactly) + error)
    assert reaches(losses, exactly)
    assert not reaches(losses, exactly + Fraction(1, 10**30))


@given(FLEETS, st.sampled_from([2, 50, 200]))
def test_without_a_device_means_without_any_one_of_them(
    losses: Counter[Fraction], threshold: int
) -> None:
    others = [losses - Counter([z]) for z in losses] or [losses]
    expected = all(reference(one) >= threshold for one in others)
    assert reaches(losses, Fraction(threshold), without=1) == expected


@given(FLEETS, st.sampled_from([2, 50, 200]))
def test_but_for_one_device_means_that_one_alone_keeps_it_below(
    losses: Counter[Fraction], threshold: int
) -> None:
    others = [losses - Counter([z]) for z in losses]
    expected = reference(losses) < threshold <= max(map(reference, others), default=Fraction(0))
    assert reaches_but_for_one(losses, Fraction(threshold)) == expected


@given(FLEETS, SHARES, st.integers(1, 6))
def test_in_spite_of_one_means_by_votes_and_without_the_lowest(
    gains: Counter[Fraction], liars: Fraction, tens: int
) -> None:
    values, threshold = sorted(gains.elements()), Fraction(10 * tens)
    voted = Counter(Fraction((z > 0) - (z < 0)) for z in values[:-1])
    others = Counter(values[1:-1])
    expected = bool(values) and values[0] < 0
    expected = expected and reference(voted, liars) >= 2 * threshold
    expected = expected and reference(others, liars) >= threshold
    assert reaches_in_spite_of_one(gains, threshold, liars) == expected


def test_a_device_counts_by_its_share_up_to_the_cap_and_by_no_number_of_images() -> None:
    cap = Fraction(1, 10)
    assert net_loss(2, 0, 40, cap) == Fraction(1, 2)
    assert net_loss(1, 4, 100, cap) == Fraction(-3, 10)
    assert net_loss(10, 0, 10, cap) == net_loss(10**6, 0, 10**6, cap) == 1
    assert net_loss(0, 3, 10, cap) == -1


def test_a_shortfall_is_0_at_the_share_that_is_asked_for() -> None:
    least = Fraction(4, 5)
    assert shortfall(8, 10, least) == 0
    assert shortfall(10, 10, least) == -1
    assert shortfall(7, 10, least) == Fraction(1, 2)
    assert shortfall(0, 10, least) == 1


def test_from_the_other_side_losses_are_gains_and_votes_are_their_signs() -> None:
    losses = Counter({Fraction(1, 3): 2, Fraction(1): 1, Fraction(-1, 2): 4, Fraction(0): 5})
    assert mirrored(losses) == {-z: count for z, count in losses.items()}
    assert signs(losses) == {Fraction(1): 3, Fraction(-1): 4, Fraction(0): 5}


def one_device_more(losses: tuple[Fraction, ...]) -> Fraction:
    return reference(Counter(losses))


@pytest.mark.parametrize(
    "outcomes",
    [
        ((Fraction(1), Fraction(1, 2)), (Fraction(-1), Fraction(1, 2))),
        ((Fraction(1), Fraction(1, 10)), (Fraction(-1, 9), Fraction(9, 10))),
        ((Fraction(1, 3), Fraction(3, 4)), (Fraction(-1), Fraction(1, 4))),
    ],
)
def test_where_devices_lose_nothing_on_average_evidence_is_1_on_average(
    outcomes: tuple[tuple[Fraction, Fraction], ...],
) -> None:
    """Exact: the law is a martingale's whatever the spread of z, if its mean is 0."""
    assert sum(z * chance for z, chance in outcomes) == 0
    total = Fraction(0)
    for sequence in itertools.product(outcomes, repeat=6):
        chance = math.prod((one for _, one in sequence), start=Fraction(1))
        total += chance * reference(Counter(z for z, _ in sequence))
    assert total == 1


def ever_reached(outcomes: dict[Fraction, Fraction], threshold: int, devices: int) -> Fraction:
    """Return the exact chance that evidence reaches a threshold at any look, by going through
    numbers of devices by outcome."""
    going = {(0,) * len(outcomes): Fraction(1)}
    values, reached = list(outcomes), Fraction(0)
    for _ in range(devices):
        following: Counter[tuple[int, ...]] = Counter()
        for counts, chance in going.items():
            for place, z in enumerate(values):
                more = tuple(n + (i == place) for i, n in enumerate(counts))
                following[more] += chance * outcomes[z]  # type: ignore[assignment]
        going = {}
        for counts, chance in following.items():
            if reaches(dict(zip(values, counts, strict=True)), Fraction(threshold)):
                reached += Fraction(chance)
            else:
                going[counts] = Fraction(chance)
    return reached


@pytest.mark.parametrize(
    "outcomes",
    [
        {Fraction(1): Fraction(1, 2), Fraction(-1): Fraction(1, 2)},
        {Fraction(1): Fraction(1, 10), Fraction(0): Fraction(8, 10), Fraction(-1): Fraction(1, 10)},
        {Fraction(1): Fraction(1, 4), Fraction(-1, 3): Fraction(3, 4)},
    ],
)
def test_the_exact_chance_of_ever_reaching_a_threshold_is_at_most_its_inverse(
    outcomes: dict[Fraction, Fraction],
) -> None:
    for threshold in (20, 200):
        assert 0 < ever_reached(outcomes, threshold, 40) <= Fraction(1, threshold)


def test_bursts_on_devices_are_no_more_evidence_than_single_images() -> None:
    """Alike images make every z an extreme one, and a fair one stays fair."""
    numbers, stopped = np.random.default_rng(0), 0
    for _ in range(100):
        things = numbers.choice([1, -1, 0], p=[0.04, 0.04, 0.92], size=(300, 5))
        losses: Counter[Fraction] = Counter()
        for net in things.sum(axis=1).tolist():
            losses[net_loss(20 * max(net, 0), 20 * max(-net, 0), 100, Fraction(1, 10))] += 1
            if reaches(losses, TWO_HUNDRED):
                stopped += 1
                break
    assert stopped <= 2  # half a rollout at most is expected


@pytest.mark.parametrize(
    ("threshold", "devices"), [(100, 10), (200, 11), (2000, 15), (20_000, 19), (200_000, 23)]
)
def test_the_fewest_devices_reach_a_threshold_and_one_less_never_does(
    threshold: int, devices: int
) -> None:
    assert fewest(Fraction(threshold)) == devices
    assert reference(Counter({Fraction(1): devices})) >= threshold
    assert reference(Counter({Fraction(1): devices - 1})) < threshold


def test_liars_by_their_number_alone_gain_nothing() -> None:
    liars = Fraction(1, 50)
    honest = Counter({Fraction(0): 980, Fraction(1): 20})
    assert reaches(honest, Fraction(1))
    assert log_evidence(honest, liars) < 0
    assert fewest(TWO_HUNDRED, liars) >= fewest(TWO_HUNDRED)


@pytest.mark.parametrize("alike", [1, 3, 20])
def test_images_alone_are_the_slow_reference_s_roots(alike: int) -> None:
    numbers = random.Random(alike)
    for _ in range(50):
        worse, better = numbers.randrange(60), numbers.randrange(60)
        capitals = [((1 + s) ** worse * (1 - s) ** better) ** (1 / alike) for s in (0.2, 0.5, 0.8)]
        expected = math.log(sum(capitals) / 3)
        assert float(log_evidence_of_images(worse, better, alike)) == pytest.approx(expected)
        assert images_reach(worse, better, alike, Fraction(5)) == (expected >= math.log(5))


def test_images_that_show_the_same_thing_count_as_one() -> None:
    assert images_reach(12, 0, 1, TWO_HUNDRED)
    assert not images_reach(12, 0, 2, TWO_HUNDRED)
    assert images_reach(24, 0, 2, TWO_HUNDRED)
    assert not images_reach(0, 10**6, 1, Fraction(1))
