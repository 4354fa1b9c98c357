"""DAD at the coordinator: it reduces the divergence, and makes the same bytes twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.training.devices import one_torch_thread
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.coordinator_phases import Averaging
from fleetledger.methods.dcid.images import shared_images
from fleetledger.methods.errors import ContributionError, MethodError
from tests.methods.dcid import slow
from tests.methods.dcid.making import ANT, EVERY, Fleet, after_two_sessions
from tests.methods.dcid.pictures import PICTURES
from tests.methods.making import as_frame, given

pytestmark = pytest.mark.torch


def distilled(**settings) -> Fleet:
    """A fleet in its second session, all of whose sites have answered to its last phase."""
    return after_two_sessions(3, distil_rate=0.01, **settings)


def combined(fleet: Fleet, order=(0, 1, 2), **settings):
    """What the coordinator makes of the last phase's answers, with other settings."""
    of = COORDINATOR.assign({**fleet.of.settings.model_dump(), **settings}, (1, 8, 8))
    payloads = list(fleet.answers.values())
    question = replace(fleet.question, extras=dict(fleet.question.extras))
    return COORDINATOR.combine(of, question, [given(payloads[place], 20) for place in order])


def parts(fleet: Fleet):
    """The sites' own models, and their logits on the shared set."""
    phase = Averaging(fleet.of, fleet.question)
    answers, steps = zip(
        *(phase.frame.parts(payload) for payload in fleet.answers.values()), strict=True
    )
    return answers, [step * 2.0**-24 for step in steps]


def mean_and_ensemble(fleet: Fleet):
    """The slow mean of (4) and the slow ensemble."""
    answers, logits = parts(fleet)
    grid = Averaging(fleet.of, fleet.question).frame.weights
    flats = [grid.values(answer).astype(np.float64) * grid.grid.steps for answer in answers]
    flat = np.mean(flats, axis=0)
    arrays = {
        name: flat[place].reshape(grid.grid.shapes[name]).astype(np.float32)
        for name, place in grid.grid.places.items()
    }
    return arrays, np.mean(logits, axis=0)


def divergence(fleet: Fleet, arrays, ensemble, first: int = 2) -> float:
    images = shared_images(fleet.of, fleet.question.extras)
    found = slow.logits(fleet.of.network, arrays, PICTURES, images)
    values = []
    for row, taught in zip(found, ensemble, strict=True):
        p, q = slow.softmax(taught[first:] / 5), slow.softmax(row[first:] / 5)
        values.append(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))
    return float(np.mean(values))


def general(fleet: Fleet, made) -> dict:
    return COORDINATOR.network_of(fleet.of, made.weights)[1]


def test_dad_brings_the_mean_nearer_to_the_ensemble():
    fleet = distilled(distil_epochs=20)
    mean, ensemble = mean_and_ensemble(fleet)
    before = divergence(fleet, mean, ensemble)
    assert before > 1e-7
    assert divergence(fleet, general(fleet, fleet.made), ensemble) < before / 2


def test_dad_is_plain_gradient_descent_on_the_loss_of_the_page():
    """One epoch of one batch: a single step against the gradient of KL times tau squared."""
    fleet = distilled(distil_epochs=1, distil_batch=1000)
    mean, ensemble = mean_and_ensemble(fleet)
    images = torch.tensor(shared_images(fleet.of, fleet.question.extras))
    parameters, buffers = to_tensors(mean)
    leaves = {name: value.requires_grad_() for name, value in parameters.items()}
    from fleetledger.learning.networks.torch_layers import Mode, forward

    scores = forward(fleet.of.network, leaves, buffers, PICTURES.normalise(images), Mode()).logits
    taught = torch.softmax(torch.tensor(ensemble[:, 2:] / 5), dim=1)
    student = torch.log_softmax(scores[:, 2:].double() / 5, dim=1)
    (25 * (taught * (taught.log() - student)).sum(dim=1).mean()).backward()
    stepped = {
        name: value - 0.01 * value.grad if value.grad is not None else value
        for name, value in leaves.items()
    }
    found = general(fleet, fleet.made)
    for name, array in to_arrays({n: v.detach() for n, v in stepped.items()}).items():
        assert np.abs(found[name] - array).max() < 1e-6, name


def test_dad_leaves_running_statistics_as_their_mean():
    fleet = distilled()
    mean, _ = mean_and_ensemble(fleet)
    for name, array in general(fleet, fleet.made).items():
        if "running" in name:
            assert np.abs(array - mean[name]).max() < 1e-6, name


def test_dad_makes_the_same_bytes_twice_in_any_order_of_the_answers():
    fleet = distilled()
    found = [combined(fleet, order) for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2))]
    assert {made.weights for made in found} == {fleet.made.weights}
    assert len({made.aggregate for made in found}) == 1


def test_the_thread_count_is_put_back():
    before = torch.get_num_threads()
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_answers_can_be_added_as_they_come():
    fleet = distilled()
    total = COORDINATOR.summing(fleet.of, fleet.question, 3)
    for payload in fleet.answers.values():
        total.add(payload, 20)
    made = COORDINATOR.combine(fleet.of, fleet.question, total)
    assert made.weights == fleet.made.weights


def test_answers_can_be_added_in_several_sums_that_are_joined():
    fleet = distilled()
    first, *others = fleet.answers.values()
    totals = [COORDINATOR.summing(fleet.of, fleet.question, 3) for _ in range(3)]
    totals[0].add(first, 20)
    for payload in others:
        totals[1].add(payload, 20)
    for other in totals[1:]:  # the last has nothing
        totals[0].join(other.partial())
    made = COORDINATOR.combine(fleet.of, fleet.question, totals[0])
    assert (made.weights, made.aggregate) == (fleet.made.weights, fleet.made.aggregate)
    assert made.client_drift == fleet.made.client_drift


def test_the_ledger_is_told_what_dad_did_and_with_which_torch():
    (remark,) = distilled().made.remarks
    assert "DAD on 30 images: loss" in remark
    assert torch.__version__ in remark


def test_dad_that_leaves_the_numbers_gives_no_model():
    with pytest.raises(MethodError, match="set distil_rate lower"):
        combined(distilled(), distil_rate=1e30)


def test_dad_needs_to_know_how_pictures_become_inputs():
    fleet = distilled()
    fleet.question = replace(fleet.question, mean=(), deviation=())
    with pytest.raises(MethodError, match="mean and deviation"):
        combined(fleet)


def test_without_dad_the_mean_is_the_general_model():
    fleet = distilled(dad=False)
    assert fleet.made.remarks == ()
    assert ANT in COORDINATOR.network_of(fleet.of, fleet.made.weights)[2]


def test_weights_without_logits_are_refused_where_dad_wants_them():
    with_dad, without = distilled(), distilled(dad=False)
    answer = without.answers["dev-0"]
    with pytest.raises(ContributionError, match="answer"):
        COORDINATOR.check(with_dad.of, answer, with_dad.question)
    with pytest.raises(ContributionError, match="answer"):
        COORDINATOR.check(without.of, with_dad.answers["dev-0"], without.question)
    COORDINATOR.check(with_dad.of, as_frame(with_dad.answers["dev-0"]), with_dad.question)


def test_every_class_keeps_its_row():
    assert COORDINATOR.network_of(distilled().of, distilled().weights)[2] == EVERY
