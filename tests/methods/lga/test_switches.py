"""Every switch changes what it says and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetledger.learning.losses.balanced_terms import (
    BalancedCrossEntropy,
    BinaryCrossEntropy,
    GradientBalance,
    OldClassDistillation,
    SemanticDistillation,
)
from fleetledger.learning.losses.composition import Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Divergence
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.work import Work
from fleetledger.methods.lga.memory import read_memory
from fleetledger.methods.lga.terms import EXPONENT, GROUPS, SLICES, TEACHER, groups_of
from tests.methods.lga.making import ANT, BEE, CAT, EVERY, assignment
from tests.methods.lga.training import Taught
from tests.methods.making import only

pytestmark = pytest.mark.torch

PAPER = GradientBalance(GROUPS, EXPONENT, "softmax", None)
CODE = GradientBalance(GROUPS, EXPONENT, "sigmoid", (0.5, 5.0))
CB, SD = BalancedCrossEntropy(PAPER), SemanticDistillation(TEACHER, PAPER)
FIRST, SECOND = BinaryCrossEntropy(CODE), BinaryCrossEntropy(CODE, TEACHER)
RELEASED: dict[str, Any] = {"mode": "code", "rate": 0.1, "schedule": "constant"}


def work(**settings: Any) -> Work:
    """The work of a device that enters the second task."""
    return Taught(assignment(**settings)).work()


def terms(made: Work) -> tuple[Weighted, ...]:
    found: tuple[Weighted, ...] = made.loss.terms  # type: ignore[attr-defined]
    return found


def weighted(*some: Any, by: tuple[float, float] = (1.0, 1.0)) -> tuple[Weighted, ...]:
    return tuple(Weighted(factor, term) for factor, term in zip(by, some, strict=False))


def shape(made: Work) -> tuple[Any, ...]:
    """Everything of a work that settings decide, but its loss and what that looks at."""
    return (
        made.optimiser,
        made.batching,
        made.chance,
        made.pictures,
        {name: value.shape for name, value in made.parameters.items()},
        len(made.data),
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, weighted(CB, SD)),
        ({"preset": "without-cbl"}, weighted(CrossEntropy(), SD)),
        ({"preset": "without-sdl"}, weighted(CB, Divergence(TEACHER))),
        ({"preset": "without-psr"}, weighted(CB, SD)),
        ({"preset": "without-sbm"}, weighted(CB, SD)),
        ({"preset": "without-ssa"}, weighted(CB, SD)),
        (
            {"preset": "glfc"},
            weighted(CB, SemanticDistillation(TEACHER), by=(0.5, 0.5)),
        ),
        ({"preset": "fedavg-exemplars"}, weighted(CrossEntropy())),
        ({"cross_entropy": 0.3, "distillation": 2.0}, weighted(CB, SD, by=(0.3, 2.0))),
        ({"balanced_distillation": False}, weighted(CB, SemanticDistillation(TEACHER))),
        ({"slices": "renormalised"}, weighted(CB, replace(SD, slices=SLICES))),
        (
            {"bounds": (0.1, 3.0)},
            weighted(
                *(replace(term, balance=replace(PAPER, bounds=(0.1, 3.0))) for term in (CB, SD))
            ),
        ),
        (RELEASED, weighted(FIRST, SECOND)),
        (RELEASED | {"preset": "without-cbl"}, weighted(BinaryCrossEntropy(), SECOND)),
        (RELEASED | {"preset": "without-sdl"}, weighted(FIRST, OldClassDistillation(TEACHER))),
        (
            RELEASED | {"preset": "glfc"},
            weighted(
                BinaryCrossEntropy(replace(CODE, bounds=None)),
                BinaryCrossEntropy(None, TEACHER),
                by=(0.5, 0.5),
            ),
        ),
        (RELEASED | {"preset": "fedavg-exemplars"}, weighted(BinaryCrossEntropy())),
    ],
)
def test_a_switch_of_the_losses_changes_its_term_alone(settings, expected):
    made = work(**settings)
    assert terms(made) == expected
    assert shape(made) == shape(work())


def test_without_an_old_model_the_compensation_loss_is_whole():
    fleet = Taught(assignment(preset="glfc"), extras={})
    assert terms(fleet.work()) == weighted(CB)


def groups(stages, stored, **settings):
    of = assignment(**settings).settings
    return groups_of(of, dict(zip(EVERY, stages, strict=True)), stored).int().tolist()


def test_groups_are_tasks_or_cumulative_or_new_and_old():
    stages, stored = (1, 1, 2, 5), {ANT, CAT}
    assert groups(stages, stored) == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert groups(stages, set()) == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    released = groups(stages, stored, groups="cumulative")
    assert released == [[0, 1, 0, 1], [1, 0, 0, 0], [1, 0, 1, 0]]
    assert groups(stages, stored, groups="two") == [[0, 1, 0, 1], [1, 0, 1, 0]]
    for kind, number in (("cumulative", 3), ("two", 2)):
        assert groups(stages, set(), groups=kind) == [[0] * 4] * number


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, 0.5), ({"exponent": "tasks"}, 0.5), ({"exponent": "one"}, 1.0)],
)
def test_the_exponent_is_of_its_kind(settings, expected):
    assert float(work(**settings).frozen[EXPONENT]) == expected


def test_slices_are_the_tasks():
    made = work(slices="renormalised").frozen
    assert made[SLICES].int().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert SLICES not in work().frozen


def test_training_is_as_the_settings_say():
    made = work(epochs=3, rate=0.7, momentum=0.5, weight_decay=0.1, batch=4, pad=2, flip=True)
    assert made.optimiser.rates == (0.7,) * 3
    assert (made.optimiser.momentum, made.optimiser.weight_decay) == (0.5, 0.1)
    assert made.batching.size == 4
    assert made.pictures == Pictures((0.3,), (0.25,), pad=2, flip=True)
    released = work(mode="code", rate=1.0, epochs=10)
    assert released.optimiser.rates == (1.0,) * 10


def test_a_small_last_batch_is_left_out_unless_it_is_the_only_one():
    fleet = Taught(assignment(smallest_batch=5, batch=8))
    whole = fleet.work()
    assert len(whole.data) == 26
    assert whole.batching.count(26) == 3
    few = fleet.work(only(fleet.new, range(3)))
    assert few.batching.count(3) == 1
    assert work(batch=8).batching.count(26) == 4


@pytest.mark.parametrize(
    ("settings", "stored"),
    [
        ({"memory": 12}, 12),
        ({"memory": 7}, 6),
        ({"memory_per_class": 2}, 4),
        ({"memory": 0}, 0),
        ({"preset": "fedavg", "memory": 0}, 0),
    ],
)
def test_memory_is_as_large_as_the_settings_say(settings, stored):
    fleet = Taught(assignment(**settings))
    answer = fleet.learn()
    assert answer.stored_samples == stored == read_memory(answer.memory).stored
    assert sum(answer.samples.values()) == 14 + stored


def test_herding_with_repetition_may_store_an_image_twice():
    found = {}
    for herding in ("distinct", "repeating"):
        memory = read_memory(Taught(assignment(herding=herding, memory=24)).learn().memory)
        found[herding] = [digest for name in (ANT, BEE) for digest in memory.exemplars[name]]
    assert len(found["distinct"]) == len(set(found["distinct"])) == 20
    assert len(found["repeating"]) == 24
    assert len(set(found["repeating"])) <= 20


def test_perturbation_and_its_rate_change_the_gradients_alone():
    plain = Taught(assignment()).learn()
    for settings in (
        {"perturbation_steps": 0},
        {"perturbation_rate": 0.5},
        {"perturbation_noise": 0.0},
        {"perturbation_decay": 0.5},
        {"perturbation_inputs": "plain"},
        {"reserved": 9},
    ):
        made = Taught(assignment(**settings)).learn()
        assert made.gradients != plain.gradients
        assert (made.payload, made.memory) == (plain.payload, plain.memory)
