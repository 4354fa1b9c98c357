"""A device that makes samples against the others is set aside by name; honest ones never are."""

import numpy as np
import pytest

from benchmarks.papers.inspection.crafted import Aim, Liar
from fleetledger.coordinator.core.rules import BoundRules
from tests.promises.one_liar import Digits, Fleet, Samples, diluted, liar_of, shared_out

STEPS = 60


@pytest.fixture(scope="module")
def digits() -> Digits:
    pytest.importorskip("sklearn.datasets")
    return Digits.behind(200)


@pytest.fixture(scope="module")
def liar(digits: Digits) -> Liar:
    return liar_of(digits)


def fleet_of(digits: Digits, seed: int = 0) -> Fleet:
    made = Fleet(digits)
    for number, samples in enumerate(digits.dealt(20, 0.1, seed)):
        made.give(f"dev-{number}", samples)
    return made


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_honest_devices_with_classes_of_their_own_always_count(digits: Digits, seed: int) -> None:
    assert not fleet_of(digits, seed).judge(0), "all at once"
    one_by_one = Fleet(digits)
    for number, samples in enumerate(digits.dealt(20, 0.1, seed)):
        assert not one_by_one.judge(one_by_one.give(f"dev-{number}", samples)), number


def test_honest_parts_of_a_few_samples_count(digits: Digits) -> None:
    fleet = fleet_of(digits)
    h, y = digits.train
    for size in (1, 3):
        for first in range(0, 30 * size, size):
            rows = slice(first, first + size)
            assert not fleet.judge(fleet.give("trickle", (h[rows], y[rows]))), (size, first)


def test_samples_made_by_gradient_are_set_aside_by_name(digits: Digits, liar: Liar) -> None:
    fleet, honest = fleet_of(digits), digits.dealt(20, 0.1, 0)
    assert not fleet.judge(0)
    made = liar.samples(Aim.of(74, steps=STEPS))
    before, _ = digits.accuracy(honest)
    unbounded, _ = digits.accuracy([*honest, made])
    assert unbounded < before - 10
    index = fleet.give("liar", made)
    (found,) = fleet.judge(index).set_aside
    assert (found.device, found.indices) == ("liar", (index,))
    assert found.residual > 4
    assert found.pull > BoundRules().max_pull
    assert index in fleet.counted.set_aside


def test_a_liar_that_comes_with_all_others_is_set_aside_alone(digits: Digits, liar: Liar) -> None:
    fleet = Fleet(digits)
    fleet.give("liar", liar.samples(Aim.of(74, steps=STEPS)))
    for number, samples in enumerate(digits.dealt(20, 0.1, 0)):
        fleet.give(f"dev-{number}", samples)
    assert {part.device for part in fleet.judge(0).set_aside} >= {"liar"}
    again = {part.device for part in fleet.judge(len(fleet.counted)).again}
    assert {fleet.counted[i].device for i in fleet.counted.set_aside} == {"liar"}, again


def test_extreme_samples_among_honest_ones_are_set_aside_though_their_residual_is_small(
    digits: Digits, liar: Liar
) -> None:
    """Their residual alone would pass, since honest samples dilute it."""
    fleet = fleet_of(digits)
    own = digits.train[0][:64], digits.train[1][:64]
    mixed = diluted(liar.samples(Aim.of(10, steps=STEPS)), own, 10)
    (found,) = fleet.judge(fleet.give("liar", mixed)).set_aside
    assert found.residual < 4
    assert found.pull > BoundRules().max_pull


def test_many_small_parts_add_up(digits: Digits, liar: Liar) -> None:
    """Each part stays within the bounds alone; together they are judged as the device doubles."""
    fleet, honest = fleet_of(digits), digits.dealt(20, 0.1, 0)
    own, extreme = digits.train, liar.samples(Aim.of(16, steps=STEPS))
    for number in range(16):
        rows = slice(10 * number, 10 * number + 9)
        one = extreme[0][number : number + 1], extreme[1][number : number + 1]
        fleet.judge(fleet.give("liar", diluted(one, (own[0][rows], own[1][rows]), 1)))
    counted: list[Samples] = list(honest)
    for number in range(16):
        if len(honest) + number not in fleet.counted.set_aside:
            rows = slice(10 * number, 10 * number + 9)
            one = extreme[0][number : number + 1], extreme[1][number : number + 1]
            counted.append(diluted(one, (own[0][rows], own[1][rows]), 1))
    assert fleet.counted.set_aside
    assert digits.accuracy(counted)[0] > digits.accuracy(honest)[0] - 8


def test_what_was_set_aside_counts_again_once_others_show_the_same(digits: Digits) -> None:
    """A class that nobody else had, said of noise that is far from everything."""
    rng = np.random.default_rng(3)
    strange: Samples = (rng.integers(0, 2, (60, 200)) * 127.0, np.full(60, 9))
    h, y = digits.train
    known = h[y != 9], y[y != 9]
    fleet = Fleet(digits)
    for number, rows in enumerate(np.array_split(np.arange(len(known[1])), 12)):
        fleet.give(f"dev-{number}", (known[0][rows], known[1][rows]))
    fleet.judge(0)
    index = fleet.give("alone", strange)
    assert fleet.judge(index).set_aside
    fleet.give("friend", strange)
    fleet.counted.let_in.add(index + 1)
    (again,) = fleet.judge(index + 2).again
    assert again.indices == (index,)


def test_devices_that_lie_together_are_each_set_aside(digits: Digits, liar: Liar) -> None:
    made = liar.samples(Aim.of(72, steps=STEPS))
    for devices in (2, 4):
        fleet = fleet_of(digits)
        assert not fleet.judge(0)
        each = 72 // devices
        told = shared_out(made, digits.train, devices, (each, each))
        given = [fleet.give(f"liar-{number}", part) for number, part in enumerate(told)]
        named = {part.device for part in fleet.judge(given[0]).set_aside}
        assert named == {f"liar-{number}" for number in range(devices)}
