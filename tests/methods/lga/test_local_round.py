"""A whole local round against the page: weights, losses and steps in both modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.training.engine import train
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.schedule import rates_of
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.methods.training.network_weights import decode_weights
from tests.methods.lga import slow
from tests.methods.lga.making import ANT, BEE, EVERY, STAGES, asked, assignment, samples, sent
from tests.methods.lga.training import PICTURES, Taught, begun, learn
from tests.methods.making import given, order

pytestmark = pytest.mark.torch


def tensors(of, question, payload):
    made = COORDINATOR.combine(of, question, [given(payload)])
    return COORDINATOR.network_of(of, made.weights)[1]


def reference(work, stages, stored, **changes):
    data, rates = work.data, work.optimiser.rates
    return slow.Round(
        PICTURES.normalise(data.inputs),
        data.targets.tolist(),
        [stage - 1 for stage in stages],
        stored,
        work.batching.size,
        rates,
        lambda epoch: work.chance.shuffled(epoch, len(data)),
        **changes,
    )


def assert_same(found, expected):
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() < 2e-5, name


def far(one, other):
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


@pytest.mark.parametrize(
    ("kind", "settings", "changes"),
    [
        ("paper", {}, {}),
        ("code", {"mode": "code", "rate": 0.1}, {}),
        ("glfc", {"preset": "glfc"}, {"gammas": (0.5, 0.5)}),
    ],
)
def test_the_second_task_is_learned_as_the_page_says(kind, settings, changes):
    fleet = Taught(assignment(**settings))
    work = fleet.work()
    teacher, _ = decode_weights(fleet.made.weights, fleet.of.network)
    begins = sent(fleet.of, fleet.question)
    slowly = reference(work, STAGES, {0, 1}, old=teacher, **changes)
    expected = slowly.train(begins, kind)
    found = tensors(fleet.of, fleet.question, fleet.learn().payload)
    assert_same(found, expected)
    assert far(expected, begins) > 0.01
    without = reference(work, STAGES, {0, 1}).train(begins, kind)
    assert far(without, expected) > 1e-3


@pytest.mark.parametrize("kind", ["paper", "code"])
def test_the_first_task_is_learned_without_weights_and_without_an_old_model(kind):
    of = assignment(mode=kind, rate=0.1)
    question = asked(of)
    asks, data = order(question, (1, 1)), samples(20, ANT, BEE)
    work = begun(of, asks, data).work
    slowly = reference(work, (1, 1), set())
    expected = slowly.train(sent(of, question), kind)
    assert set(np.round(slowly.weights_seen, 9)) == {1.0}
    assert_same(tensors(of, question, learn(of, asks, data).payload), expected)


def test_the_third_task_has_groups_of_every_past_task_upon_each_other_as_released():
    """Classes of the first task weigh in two groups, so their weights add up."""
    fleet = Taught(assignment(mode="code", rate=0.1, memory_per_class=4))
    eel = (*EVERY, "eel")
    memory = fleet.learn().memory
    question = asked(
        fleet.of, *eel, weights=fleet.made.weights, rows=(ANT, BEE), extras=fleet.question.extras
    )
    asks = order(question, (*STAGES, 3), number=3)
    data = samples(10, "eel", seed=2)
    every = type(data)(
        np.concatenate([fleet.data.inputs, data.inputs]),
        fleet.data.class_names + data.class_names,
        fleet.data.digests + data.digests,
    )
    work = begun(fleet.of, asks, every, memory).work
    assert work.frozen["groups"].int().tolist() == [
        [0, 0, 0, 0, 1],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0],
    ]
    assert float(work.frozen["exponent"]) == pytest.approx(2 / 3)
    teacher, _ = decode_weights(fleet.made.weights, fleet.of.network)
    slowly = reference(work, (*STAGES, 3), {0, 1, 2, 3}, old=teacher)
    expected = slowly.train(sent(fleet.of, question), "code")
    assert_same(tensors(fleet.of, question, learn(fleet.of, asks, every, memory).payload), expected)
    assert max(slowly.weights_seen) > 1.5


def test_devices_of_a_round_can_share_a_stack():
    fleet = Taught(assignment())
    other = order(fleet.question, STAGES, number=2, device_name="dev-2")
    pair = [fleet.begun(), begun(fleet.of, other, samples(16, "cat", "dog", seed=3))]
    works = [one.work for one in pair]
    assert works[0].loss == works[1].loss
    alone = train(works, TrainingEngineSettings(engine="loop"))
    stacked = train(works, TrainingEngineSettings(engine="stack"))
    for one, same in zip(alone, stacked, strict=True):
        for name, value in one.parameters.items():
            assert torch.allclose(value, same.parameters[name], atol=1e-5), name


def test_a_whole_round_is_the_same_to_the_last_bit_when_it_is_repeated():
    one, other = Taught(assignment()).learn(), Taught(assignment()).learn()
    assert (one.payload, one.gradients, one.memory) == (
        other.payload,
        other.gradients,
        other.memory,
    )


@pytest.mark.parametrize("sent_as", ["int32", "int16"])
def test_an_answer_has_either_form(sent_as):
    fleet = Taught(assignment(upload=sent_as))
    COORDINATOR.check(fleet.of, fleet.learn().payload, fleet.question)


def test_released_rates_are_those_of_ten_rounds_of_twenty_epochs():
    settings = LgaSettings(mode="code")
    rates = {number: rates_of(settings, number + 1, 10) for number in range(10)}
    for number in (0, 1, 2, 3, 4, 6, 8):
        assert rates[number] == (2.0,) * 20
    assert rates[5] == (0.4,) * 20
    assert rates[7] == (2.0,) * 10 + (0.08,) * 10
    assert rates[9] == (0.016,) * 20


def test_other_numbers_of_rounds_have_the_marks_at_the_same_places():
    settings = LgaSettings(mode="code", epochs=5, rate=1.0)
    rates = [rates_of(settings, number, 4) for number in range(1, 5)]
    assert rates == [(1.0,) * 5, (1.0,) * 5, (0.2,) * 5, (0.04,) * 3 + (0.008,) * 2]
    assert rates_of(LgaSettings(epochs=3), 9, 10) == (0.1,) * 3
