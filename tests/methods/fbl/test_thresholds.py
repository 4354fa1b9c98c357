"""The pass before each epoch: whose entropies, over which pixels, and what share is accepted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.thresholds import accepted_share
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.methods.fbl.losses import OLD
from fleetledger.methods.fbl.thresholds import THRESHOLDS, FindsThresholds
from tests.methods.fbl.making import ANT, BEE, asked, assignment, scenes
from tests.methods.fbl.training import PICTURES, Taught, begun
from tests.methods.making import order

pytestmark = pytest.mark.torch


def shares_of(of, parameters, buffers, inputs):
    """Probabilities (n, C, h, w), float64."""
    outputs, _ = DensePass(of.network)(parameters, buffers, PICTURES.normalise(inputs), Mode())
    return outputs.logits.double().softmax(dim=1).numpy()


def entropies(shares):
    return -(shares * np.log(shares)).sum(axis=1)


def found(work, epoch=0, parameters=None, batch=5):
    infer = Inference(batch, PICTURES)
    made = work.prepare(work, parameters or work.parameters, work.buffers, epoch, infer)
    return made.agent[THRESHOLDS].numpy()


def both(fleet, work):
    """The model in training, and the old one."""
    old = work.frozen[OLD]
    now = shares_of(fleet.of, work.parameters, work.buffers, work.data.inputs)
    return now, shares_of(fleet.of, old["parameters"], old["buffers"], work.data.inputs)


@pytest.mark.parametrize(("epoch", "rho"), [(0, 0.2), (3, 0.5), (9, 0.8)])
def test_thresholds_are_those_of_algorithm_1_over_all_current_scenes(epoch, rho):
    fleet = Taught(assignment())
    work = fleet.work()
    now, old = both(fleet, work)
    guesses, counted = old.argmax(axis=1), work.data.targets.numpy() != 255
    for name in (1, 2):
        values = sorted(entropies(now)[(guesses == name) & counted])
        expected = (
            values[min(math.floor(len(values) * rho), len(values) - 1)] if values else -np.inf
        )
        assert found(work, epoch)[name] == pytest.approx(expected, rel=1e-5)
    assert len(found(work)) == 3


def test_they_follow_the_model_in_training():
    work = Taught(assignment()).work()
    other = {name: value * 0.5 for name, value in work.parameters.items()}
    assert not np.array_equal(found(work), found(work, parameters=other))


def test_batches_of_the_pass_do_not_matter():
    work = Taught(assignment()).work()
    assert found(work, batch=1) == pytest.approx(found(work, batch=12), rel=1e-5)


def test_the_share_is_that_of_the_settings():
    fleet = Taught(assignment(share_start=0.5, share_step=0.0, share_most=0.5))
    plain = Taught(assignment())
    assert np.array_equal(found(fleet.work(), 0), found(plain.work(), 3))
    assert np.array_equal(found(fleet.work(), 0), found(fleet.work(), 5))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("transition", [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, *[0.8] * 6]),
        ("round", 2 * [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    ],
)
def test_rho_grows_over_a_task_to_its_cap_or_begins_again_in_each_round(since, expected):
    fleet = Taught(assignment(epochs=6, share_since=since))
    settings, answer = fleet.of.settings, fleet.learn()
    works = (
        fleet.work(),
        begun(fleet.of, fleet.second(fleet.combined(answer)), fleet.data, answer.memory).work,
    )
    told = [
        accepted_share(
            work.prepare.before + epoch,
            settings.share_start,
            settings.share_step,
            settings.share_most,
        )
        for work in works
        for epoch in range(settings.epochs)
    ]
    assert told == pytest.approx(expected)


def test_epochs_count_since_the_last_transition():
    fleet = Taught(assignment())
    first = fleet.work()
    answer = fleet.learn()
    second = fleet.second(fleet.combined(answer))
    work = begun(fleet.of, second, fleet.data, answer.memory).work
    assert isinstance(first.prepare, FindsThresholds)
    assert (first.prepare.before, work.prepare.before) == (0, 2)
    plain = Taught(assignment(share_since="round"))
    assert begun(plain.of, second, plain.data, answer.memory).work.prepare.before == 0


def test_plops_are_medians_of_the_old_models_entropies_on_background():
    fleet = Taught(assignment(preset="plop"))
    work = fleet.work()
    _, old = both(fleet, work)
    guesses, asked = old.argmax(axis=1), work.data.targets.numpy() == 0
    for name in range(3):
        values = entropies(old)[(guesses == name) & asked]
        expected = np.median(values) if len(values) else -np.inf
        assert found(work)[name] == pytest.approx(expected, rel=1e-5)


def test_the_released_ones_have_a_floor():
    work = Taught(assignment(mode="code", detection="rise")).work()
    limits = found(work)
    assert limits.shape == (3,)
    assert all(limit >= 0.001 or limit == -np.inf for limit in limits)


@pytest.mark.parametrize("preset", ["without-apl", "finetuning", "lwf", "ilt", "mib"])
def test_others_have_none(preset):
    assert Taught(assignment(preset=preset)).work().prepare is None


def test_there_is_none_in_the_first_task():
    of = assignment()
    work = begun(of, order(asked(of), (1, 1)), scenes(6, ANT, BEE)).work
    assert work.prepare is None
    assert torch.is_tensor(work.data.targets)
