"""P-values beside a sorted list, chances of a device's own, and one look against another."""

from bisect import bisect_left, bisect_right

import numpy as np
import pytest

from fleetledger.learning.numerics.conformal import (
    BINS,
    LOOK_BET,
    chance_of,
    counts_of,
    first_number,
    is_stranger,
    levels_of,
    p_value,
    pays,
    shuffled,
)


def slow_p(earlier: list[int], level: int, chance: float) -> float:
    """Return the conformal p-value from a sorted list."""
    levels = sorted([*earlier, level])
    stranger = len(levels) - bisect_right(levels, level)
    alike = bisect_right(levels, level) - bisect_left(levels, level)
    return (stranger + chance * alike) / len(levels)


def test_a_p_value_is_the_share_of_images_that_are_as_strange() -> None:
    values = np.random.default_rng(1).beta(0.6, 1.4, 60)
    levels = levels_of(values).tolist()
    counts = np.bincount(levels[:-1], minlength=BINS)
    for chance in (0.0, 0.25, 1.0):
        assert p_value(counts, levels[-1], chance) == pytest.approx(
            slow_p(levels[:-1], levels[-1], chance)
        )


def test_a_bet_pays_one_on_average() -> None:
    for stake in (0.4, 0.8):
        assert np.mean([pays(p, stake) for p in np.linspace(0, 1, 1001)]) == pytest.approx(1)


def test_chance_is_uniform_and_repeats() -> None:
    chances = [chance_of(number) for number in range(4000)]
    assert chances[:5] == [chance_of(number) for number in range(5)]
    assert np.histogram(chances, 10, (0, 1))[0].min() > 320
    assert abs(np.corrcoef(chances[1:], chances[:-1])[0, 1]) < 0.05
    assert sorted(shuffled(50, 7)) == list(range(50))
    assert shuffled(50, 7) != shuffled(50, 8)


def test_numbers_of_other_names_are_apart() -> None:
    numbers = sorted(first_number(f"device-{index}/model") for index in range(200))
    assert numbers == sorted(first_number(f"device-{index}/model") for index in range(200))
    assert max(numbers) < 2**48
    assert min(np.diff(numbers)) > 1_000_000, "sequences of a million ties do not meet"


def test_a_look_in_which_nothing_changed_is_rarely_stranger_than_the_one_before() -> None:
    """At most one in 20 of them, whatever the values; 400 looks, standard deviation below 5."""
    draw = np.random.default_rng(8)
    for either in (False, True):
        found = 0
        for look in range(400):
            values = draw.beta(0.5, 1.5, 80).tolist()
            found += is_stranger(
                counts_of(values[:40]), values[40:], 20, f"a/{look}", either=either
            )
        assert found <= 20 + 10
    assert is_stranger(counts_of([0.1] * 40), [0.5] * 40, 20, "a")
    assert not is_stranger(counts_of([0.5] * 40), [0.1] * 40, 20, "a")
    assert is_stranger(counts_of([0.5] * 40), [0.1] * 40, 20, "a", either=True)
    assert not is_stranger((), [0.5] * 40, 20, "a")


@pytest.mark.parametrize("either", [False, True])
def test_evidence_of_a_look_is_the_product_of_its_bets_from_one_on(*, either: bool) -> None:
    """A slow product beside the same numbers, at limits just below and just above its maximum.

    With `either` it is the mean of two products.
    """
    draw = np.random.default_rng(3)
    for look in range(40):
        before, values = draw.beta(0.5, 1.5, 30).tolist(), draw.beta(0.9, 1.1, 30).tolist()
        own = f"camera/{look}"
        number, earlier = first_number(own), levels_of(before).tolist()
        above, below, highest = 1.0, 1.0, 0.0
        for index in shuffled(len(values), number):
            level = int(levels_of([values[index]])[0])
            p = slow_p(earlier, level, chance_of(number))
            above, below = (
                above * (1 + LOOK_BET * (1 - 2 * p)),
                below * (1 - LOOK_BET * (1 - 2 * p)),
            )
            earlier.append(level)
            number += 1
            highest = max(highest, (above + below) / 2 if either else above)
        counts = counts_of(before)
        assert is_stranger(counts, values, 0.999 * highest, own, either=either)
        assert not is_stranger(counts, values, 1.001 * highest, own, either=either)


def test_looks_of_a_fleet_whose_images_are_all_equal_are_not_false_together() -> None:
    """40 devices, images of one level alone, so that chance decides everything.

    With one sequence of chance for all of them, every device or none would see a change at a look.
    """
    looks, devices, false = 60, 40, 0
    for look in range(looks):
        found = [
            is_stranger(counts_of([0.2] * 30), [0.2] * 30, 5, f"device-{device}/{look}")
            for device in range(devices)
        ]
        assert sum(found) < devices // 2
        false += sum(found)
    assert 0 < false <= looks * devices / 5
