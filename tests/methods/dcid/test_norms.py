"""Batch normalisation: of a network that is distilled, and the running statistics of the mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.images import shared_images
from fleetledger.methods.dcid.memory import read_memory
from fleetledger.methods.dcid.model import decode_general
from fleetledger.methods.errors import MethodError
from tests.methods.dcid import by_hand
from tests.methods.dcid.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    Fleet,
    after_two_sessions,
    assignment,
    beginning,
    sites,
)
from tests.methods.dcid.pictures import PICTURES
from tests.methods.dcid.test_aggregated import combined, general, mean_and_ensemble
from tests.methods.making import given

pytestmark = pytest.mark.torch

ALONE = {"dcd": False, "dad": False}
ONE_STEP = {"distil_epochs": 1, "distil_batch": 1000, "distil_rate": 0.01}


def buffers(arrays: dict) -> dict:
    return {name: array for name, array in arrays.items() if is_buffer(name)}


def assert_near(one: dict, other: dict, within: float) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert np.abs(array - other[name]).max() < within, name


def inputs_of(fleet: Fleet) -> torch.Tensor:
    return PICTURES.normalise(torch.tensor(shared_images(fleet.of, fleet.question.extras)))


def by_torchs_own_layers(arrays: dict, inputs: torch.Tensor, taught: np.ndarray) -> dict:
    """One step of DAD in training mode, through `torch.nn` and its autograd."""
    layers: list = []
    for layer in range(2):
        width = arrays[f"linear{layer}.bias"].shape[0]
        linear = torch.nn.Linear(arrays[f"linear{layer}.weight"].shape[1], width)
        layers += [linear, torch.nn.BatchNorm1d(width), torch.nn.ReLU()]
    classes, width = arrays["head.weight"].shape
    head = torch.nn.Linear(width, classes)
    module = torch.nn.Sequential(torch.nn.Flatten(), *layers, head).train()
    places = {"1": "linear0", "2": "norm0", "4": "linear1", "5": "norm1", "7": "head"}
    state = {
        f"{place}.{part}": torch.tensor(arrays[f"{name}.{part}"])
        for place, name in places.items()
        for part in ("weight", "bias", "running_mean", "running_var")
        if f"{name}.{part}" in arrays
    }
    module.load_state_dict(state, strict=False)  # the number of batches is no tensor of ours
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    teacher = torch.softmax(torch.tensor(taught[:, 2:] / 5), dim=1)
    student = torch.log_softmax(module(inputs)[:, 2:].double() / 5, dim=1)
    (25 * (teacher * (teacher.log() - student)).sum(dim=1).mean()).backward()
    optimiser.step()
    return {
        f"{places[key.partition('.')[0]]}.{key.partition('.')[2]}": value.detach().numpy()
        for key, value in module.state_dict().items()
        if "num_batches" not in key
    }


def test_in_train_mode_dad_is_a_step_through_torchs_own_batch_normalisation():
    fleet = after_two_sessions(2, distil_norm="train", **ONE_STEP)
    mean, ensemble = mean_and_ensemble(fleet)
    expected = by_torchs_own_layers(mean, inputs_of(fleet), ensemble)
    assert_near(general(fleet, fleet.made), expected, 1e-5)


def test_statistics_that_are_put_back_are_those_of_the_mean_and_weights_are_the_same():
    fleet = after_two_sessions(2, distil_norm="train", **ONE_STEP)
    mean, _ = mean_and_ensemble(fleet)
    followed, put_back = (
        general(fleet, combined(fleet, (0, 1), distil_norm=how))
        for how in ("train", "train-frozen")
    )
    assert_near(buffers(put_back), buffers(mean), 1e-6)
    weights = {name: array for name, array in followed.items() if not is_buffer(name)}
    assert_near(weights, {name: put_back[name] for name in weights}, 1e-7)
    assert np.abs(followed["norm0.running_mean"] - mean["norm0.running_mean"]).max() > 1e-3


@pytest.mark.parametrize(
    ("how", "stay"), [("eval", True), ("train-frozen", True), ("train", False)]
)
def test_a_site_that_distils_keeps_its_statistics_unless_its_norms_are_in_train_mode(how, stay):
    fleet = Fleet(assignment(distil_norm=how, dad=False, rate=0.01), sites(1))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    for place, phase in enumerate(("share", "train"), 1):
        fleet.phase(phase, place, 4, EVERY, (CAT, DOG))
    before = read_memory(fleet.memories["dev-0"], fleet.of.network).after_did.arrays
    fleet.phase("distil", 3, 4, EVERY, (CAT, DOG))
    after = decode_general(fleet.weights, fleet.of.network).arrays
    far = np.abs(after["norm0.running_mean"] - before["norm0.running_mean"]).max()
    assert (far < 1e-5) == stay


def test_statistics_as_sent_are_those_that_the_round_began_with():
    fleet = after_two_sessions(2, running_statistics="sent", **ALONE)
    found, sent = general(fleet, fleet.made), beginning(fleet.of, fleet.question).sent
    assert_near(buffers(found), buffers(sent), 1e-12)
    averaged = general(fleet, combined(fleet, (0, 1), running_statistics="averaged"))
    assert_near(
        *({n: a for n, a in o.items() if not is_buffer(n)} for o in (found, averaged)), 1e-9
    )
    assert np.abs(averaged["norm0.running_mean"] - found["norm0.running_mean"]).max() > 1e-3


@pytest.mark.parametrize("batch", [1000, 7])
def test_measured_statistics_are_those_of_the_shared_set_layer_by_layer(batch):
    """In NumPy and float64: batches in the order of S, each normalised by itself."""
    fleet = after_two_sessions(2, running_statistics="re-estimated", distil_batch=batch, **ALONE)
    found = general(fleet, fleet.made)
    inputs, sums, count = inputs_of(fleet).numpy().astype(float), {}, 0
    for start in range(0, len(inputs), batch):
        values = inputs[start : start + batch].reshape(-1, 64)
        if len(values) < 2:
            continue
        count += len(values)
        for layer in range(2):
            weight, bias = found[f"linear{layer}.weight"], found[f"linear{layer}.bias"]
            values = values @ weight.T.astype(float) + bias
            mean, variance = values.mean(axis=0), values.var(axis=0)
            seen = {"running_mean": mean, "running_var": values.var(axis=0, ddof=1)}
            for part, value in seen.items():
                name = f"norm{layer}.{part}"
                sums[name] = sums.get(name, 0) + len(values) * value
            values = (values - mean) / np.sqrt(variance + 1e-5)
            values = values * found[f"norm{layer}.weight"] + found[f"norm{layer}.bias"]
            values = np.maximum(values, 0)
    expected = {name: value / count for name, value in sums.items()}
    assert_near(buffers(found), expected, 1e-4)


def test_with_measured_statistics_the_mean_in_use_is_nearly_the_mean_in_training():
    fleet = after_two_sessions(2, running_statistics="re-estimated", **ALONE)
    found, inputs = general(fleet, fleet.made), inputs_of(fleet).numpy()
    one, other = (by_hand.passed(found, inputs, training=how)[1] for how in (True, False))
    assert np.abs(one - other).max() < 0.1 * np.abs(one).max()


FORMS = (
    {"distil_norm": "train"},
    {"running_statistics": "re-estimated"},
    {"running_statistics": "sent", "distil_norm": "train-frozen"},
    {"running_statistics": "re-estimated", **ALONE},
)


@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_however_answers_are_added_the_same_bytes_come_of_them(settings):
    fleet = after_two_sessions(3, **settings)
    assert {combined(fleet, order).weights for order in ((0, 1, 2), (2, 0, 1))} == {
        fleet.made.weights
    }
    first, *others = fleet.answers.values()
    totals = [COORDINATOR.summing(fleet.of, fleet.question, 3) for _ in range(2)]
    totals[0].add(first, 20)
    for payload in others:
        totals[1].add(payload, 20)
    totals[0].join(totals[1].partial())
    made = COORDINATOR.combine(fleet.of, fleet.question, totals[0])
    assert (made.weights, made.aggregate) == (fleet.made.weights, fleet.made.aggregate)


def test_a_single_shared_image_has_no_statistics():
    of = assignment(
        shared_set="synthetic", synthetic_images=1, running_statistics="re-estimated", **ALONE
    )
    with pytest.raises(MethodError, match="running_statistics: 're-estimated' on 1 shared image"):
        Fleet(of, sites(1)).session(ANT, BEE)


def test_whoever_compares_gets_the_models_their_weights_and_the_mean():
    fleet = after_two_sessions(2, running_statistics="sent")
    updates = [given(payload, 20 + 10 * n) for n, payload in enumerate(fleet.answers.values())]
    parts = COORDINATOR.parts_of(fleet.of, fleet.question, updates)
    assert parts is not None
    assert parts.weights == [20, 30]
    weighted = (20 * parts.models[0]["head.weight"] + 30 * parts.models[1]["head.weight"]) / 50
    assert np.abs(parts.mean["head.weight"] - weighted).max() < 1e-6
    sent = beginning(fleet.of, fleet.question).sent
    assert_near(buffers(parts.mean), buffers(sent), 1e-12)
    assert to_tensors(parts.models[1])[1].keys() == buffers(parts.mean).keys()


def test_phases_without_models_have_none_to_compare():
    fleet = Fleet(assignment(), sites(1))
    fleet.session(ANT, BEE)
    fleet.stage += 1
    fleet.phase("share", 1, 4, EVERY, (CAT, DOG))
    updates = [given(payload, 20) for payload in fleet.answers.values()]
    assert COORDINATOR.parts_of(fleet.of, fleet.question, updates) is None
