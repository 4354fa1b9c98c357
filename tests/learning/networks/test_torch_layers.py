"""Layers alone and in a stack, against torch's modules one agent at a time."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.networks.torch_layers import Mode, TorchLayers, forward

pytestmark = pytest.mark.torch

NETWORK = Network(Mlp(6, (16, 8)))
VALID = (7, 2, 4)


def tensors(seed, network=NETWORK):
    arrays = network.initial(seed, ["a", "b", "c"])
    given = {name: torch.from_numpy(array).double() for name, array in arrays.items()}
    parameters = {name: value for name, value in given.items() if not is_buffer(name)}
    return parameters, {name: value + 0.1 for name, value in given.items() if is_buffer(name)}


def stacked(states):
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


INPUTS = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 7, 6)))
WEIGHT = (torch.arange(7) < torch.tensor(VALID)[:, None]).double()
AGENTS = [tensors(seed) for seed in range(3)]
STACK = [stacked([agent[part] for agent in AGENTS]) for part in (0, 1)]


@pytest.mark.parametrize("training", [True, False])
def test_a_stack_is_its_agents_one_by_one_on_their_valid_rows(training):
    together = forward(NETWORK, *STACK, INPUTS, Mode(training, WEIGHT))
    for agent, rows in enumerate(VALID):
        alone = forward(NETWORK, *AGENTS[agent], INPUTS[agent, :rows], Mode(training))
        assert torch.allclose(together.logits[agent, :rows], alone.logits, atol=1e-12)
        assert torch.allclose(together.features[agent, :rows], alone.features, atol=1e-12)
        for name, value in alone.buffers.items():
            assert torch.allclose(together.buffers[name][agent], value, atol=1e-12)


@pytest.mark.parametrize("stacked", [True, False])
def test_frozen_norms_train_as_in_use_and_leave_their_statistics(stacked):
    state, inputs = (STACK, INPUTS) if stacked else (AGENTS[0], INPUTS[0, :1])
    weight = WEIGHT if stacked else None
    trained = forward(NETWORK, *state, inputs, Mode(True, weight, frozen_norm=True))
    in_use = forward(NETWORK, *state, inputs, Mode(False, weight))
    assert torch.allclose(trained.logits, in_use.logits, atol=1e-12)
    assert all(torch.equal(value, state[1][name]) for name, value in trained.buffers.items())


def test_what_pads_a_batch_does_not_matter():
    other = torch.where(WEIGHT[..., None] > 0, INPUTS, torch.full_like(INPUTS, 1e3))
    one, two = (forward(NETWORK, *STACK, x, Mode(True, WEIGHT)) for x in (INPUTS, other))
    assert torch.allclose(one.logits[WEIGHT > 0], two.logits[WEIGHT > 0], atol=1e-12)
    assert all(torch.allclose(one.buffers[n], two.buffers[n]) for n in one.buffers)


def test_a_model_that_all_agents_share_serves_a_stack():
    together = forward(NETWORK, *AGENTS[0], INPUTS, Mode(False, WEIGHT))
    for agent in range(3):
        alone = forward(NETWORK, *AGENTS[0], INPUTS[agent], Mode())
        assert torch.allclose(together.logits[agent], alone.logits, atol=1e-12)


def test_a_pass_changes_no_tensor_in_place():
    parameters, buffers = tensors(5)
    before = {name: value.clone() for name, value in buffers.items()}
    forward(NETWORK, parameters, buffers, INPUTS[0], Mode(True))
    assert all(torch.equal(buffers[name], value) for name, value in before.items())


@pytest.mark.parametrize("lead", [(), (3,)])
def test_the_cosine_head_scores_angles(lead):
    network = Network(Mlp(6, (8,)), "cosine")
    parameters, buffers = tensors(1, network)
    parameters["head.scale"] = torch.tensor(4.0).double()
    if lead:
        parameters, buffers = (stacked([part] * 3) for part in (parameters, buffers))
    weight = WEIGHT if lead else None
    out = forward(network, parameters, buffers, INPUTS if lead else INPUTS[0], Mode(True, weight))
    weights = parameters["head.weight"]
    wanted = 4 * functional.cosine_similarity(
        out.features.unsqueeze(-2), weights.unsqueeze(-3), dim=-1
    )
    assert torch.allclose(out.logits, wanted, atol=1e-12)


def test_a_batch_of_one_is_refused_with_the_way_out():
    with pytest.raises(TrainingError, match="set smallest to 2"):
        forward(NETWORK, *AGENTS[0], INPUTS[0, :1], Mode(True))


def test_dropout_needs_chance_while_training_and_does_nothing_in_use():
    values = torch.ones(2, 3)
    assert TorchLayers({}, {}, Mode(False)).dropout(values, 0.5, 0) is values
    assert TorchLayers({}, {}, Mode(True)).dropout(values, 0.0, 0) is values
    with pytest.raises(TrainingError, match="source of chance"):
        TorchLayers({}, {}, Mode(True)).dropout(values, 0.5, 0)
    asked = TorchLayers({}, {}, Mode(True, dropout=lambda v, rate, layer: v * rate + layer))
    assert asked.dropout(values, 0.5, 2).tolist() == [[2.5] * 3] * 2
