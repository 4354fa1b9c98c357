"""FedHAF's adapter and hidden head against torch's modules, and the bodies that nobody trains."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.fixed_features import FixedProjection, projection
from fleetledger.learning.networks.head import HIDDEN_WIDTH, ROWS
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.networks.registry import NETWORKS, build_network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.training.chance import Chance, StepChance, signed
from tests.learning.networks.adapter_modules import AdapterAndHead

OF_FEATURES = [name for name, known in NETWORKS.items() if known.of_features]
pytestmark = pytest.mark.torch

CLASSES = [f"class {i}" for i in range(5)]
SHORTCUTS = ["hidden", "input", "none"]
INPUTS = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 12)))


def small(shortcut, dropout=0.0):
    return Network(FeatureAdjustment(12, 16, 8, shortcut, dropout), "hidden", dropout)


def state(network, seed=3):
    arrays = network.initial(seed, CLASSES)
    random = np.random.default_rng(1)
    for name, array in arrays.items():
        if name.endswith(("running_mean", "running_var", "bias", "up.weight")):
            arrays[name] = array + random.uniform(0, 1, array.shape).astype(np.float32)
    parameters, buffers = to_tensors(arrays)
    return tuple({n: v.double() for n, v in part.items()} for part in (parameters, buffers))


@pytest.mark.parametrize("shortcut", SHORTCUTS)
@pytest.mark.parametrize("training", [True, False])
def test_adapter_and_head_are_those_of_modules(shortcut, training):
    network = small(shortcut)
    parameters, buffers = state(network)
    module = AdapterAndHead(network.body, len(CLASSES)).double().train(training)
    module.load_state_dict({**parameters, **buffers}, strict=False)
    counters = [name for name in module.state_dict() if "num_batches" in name]
    assert module.state_dict().keys() - counters == {**parameters, **buffers}.keys()
    features, logits = module(INPUTS, (1.0, 1.0, 1.0))
    ours = forward(network, parameters, buffers, INPUTS, Mode(training))
    assert torch.allclose(ours.features, features, atol=1e-12)
    assert torch.allclose(ours.logits, logits, atol=1e-12)
    for name, value in ours.buffers.items():
        assert torch.allclose(value, module.state_dict()[name], atol=1e-12), name


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_each_layer_drops_by_chance_of_its_own(shortcut):
    network, drawn = small(shortcut, 0.25), []
    moment = StepChance.derived(torch.tensor(signed(Chance(1, "a").key)), epoch=0, batch=0)

    def drop(values, rate, layer):
        assert rate == 0.25
        drawn.append(moment.dropout(torch.ones_like(values), rate, layer))
        return values * drawn[-1]

    parameters, buffers = state(network)
    ours = forward(network, parameters, buffers, INPUTS, Mode(True, dropout=drop))
    module = AdapterAndHead(network.body, len(CLASSES)).double()
    module.load_state_dict({**parameters, **buffers}, strict=False)
    assert [mask.shape[1] for mask in drawn] == [16, 16, HIDDEN_WIDTH]
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2][:, :16])
    assert torch.allclose(ours.logits, module(INPUTS, drawn)[1], atol=1e-12)


@pytest.mark.parametrize(
    ("shortcut", "millions", "exactly"),
    [("hidden", 1.62, 1_622_756), ("input", 2.02, 2_015_972), ("none", 1.49, 1_491_684)],
)
def test_the_parameters_are_as_many_as_the_specification_counts(shortcut, millions, exactly):
    network = Network(FeatureAdjustment(2048, shortcut=shortcut), "hidden")
    shapes = network.shapes(100)
    trained = sum(prod(shape) for name, shape in shapes.items() if not is_buffer(name))
    assert trained == exactly
    assert round(trained / 1e6, 2) == millions


def test_the_registered_adapter_is_that_of_the_paper():
    network = build_network("fam", (2048,), "hidden")
    assert network.body == FeatureAdjustment(2048, 512, 256, "hidden", 0.1)
    assert network.head_dropout == 0.1
    assert network.stackable
    assert network.shapes(7)["head.hidden.weight"] == (128, 256)
    assert {name: network.shapes(7)[name] for name in ROWS} == {
        "head.weight": (7, 128),
        "head.bias": (7,),
    }


def test_first_weights_are_kaiming_uniform_and_new_rows_those_of_a_linear_layer():
    arrays = build_network("fam", (640,), "hidden").initial(1, CLASSES)
    for name in ("linear0", "linear1", "linear2", "shortcut", "head.hidden"):
        weight = arrays[f"{name}.weight"]
        assert weight.var() == pytest.approx(2 / weight.shape[1], rel=0.05), name
    bound = 1 / np.sqrt(HIDDEN_WIDTH)
    assert 0.9 * bound < np.abs(arrays["head.weight"]).max() < bound


@pytest.mark.parametrize("name", OF_FEATURES)
@pytest.mark.parametrize("head", ["linear", "cosine", "hidden"])
def test_a_stack_on_features_is_its_agents_one_by_one(name, head):
    network = replace(build_network(name, (12,), head), head_dropout=0.0)
    if name == "fam":
        network = replace(network, body=replace(network.body, dropout=0.0))
    states = [state(network, seed) for seed in range(3)]
    inputs = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 7, 12)))
    rows = (7, 2, 4)
    weight = (torch.arange(7) < torch.tensor(rows)[:, None]).double()
    parts = [
        {key: torch.stack([state[part][key] for state in states]) for key in states[0][part]}
        for part in (0, 1)
    ]
    drawn = np.random.default_rng(4)
    base = {  # what nobody trains has no axis of agents
        plan.name: torch.from_numpy(drawn.uniform(0.5, 2, plan.shape))
        for plan in network.body.base_plan()
    }
    together = forward(network, {**base, **parts[0]}, parts[1], inputs, Mode(True, weight))
    for agent, valid in enumerate(rows):
        own = ({**base, **states[agent][0]}, states[agent][1])
        alone = forward(network, *own, inputs[agent, :valid], Mode(True))
        for one, two in ((together.logits, alone.logits), (together.features, alone.features)):
            assert torch.allclose(one[agent, :valid], two, atol=1e-12)


def test_the_fixed_projection_follows_from_its_seed_and_is_no_tensor():
    body = FixedProjection(300, 40, seed=4)
    matrix = projection(300, 40, 4)
    assert (matrix.shape, matrix.dtype) == ((40, 300), np.float32)
    assert matrix.var() == pytest.approx(1 / 300, rel=0.05)
    assert not np.array_equal(matrix, projection(300, 40, 5))
    assert body.plan() == body.base_plan() == ()
    network = Network(body, "hidden")
    assert all(name.startswith("head.") for name in network.shapes(2))
    parameters, buffers = to_tensors(network.initial(0, CLASSES))
    inputs = np.random.default_rng(0).normal(size=(6, 300)).astype(np.float32)
    features = forward(network, parameters, buffers, torch.from_numpy(inputs), Mode()).features
    wanted = inputs.astype(np.float64) @ matrix.astype(np.float64).T
    assert np.allclose(features.numpy(), wanted, atol=1e-5)


def test_features_can_reach_the_head_as_they_are():
    network = build_network("identity", (12,))
    parameters, buffers = to_tensors(network.initial(0, CLASSES))
    out = forward(network, parameters, buffers, INPUTS.float(), Mode())
    assert torch.equal(out.features, INPUTS.float())
    wanted = INPUTS.float() @ parameters["head.weight"].T + parameters["head.bias"]
    assert torch.allclose(out.logits, wanted, atol=1e-6)
