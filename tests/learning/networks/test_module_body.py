"""Networks from outside: names, first weights, training, stacks, inner layers, and refusals."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fleetledger.learning.errors import NetworkError, TrainingError
from fleetledger.learning.losses.composition import ComposedLoss, Step, Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Distillation
from fleetledger.learning.networks import registry
from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.running_statistics import measured_statistics
from fleetledger.learning.networks.stacked_modules import alone_because
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.networks.torch_modules import module_with
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Batching, Data, Sgd, Work
from tests.learning.networks.outside import OUTSIDE, batch_norm_cnn, tokens
from tests.learning.training.agents import largest_difference

pytestmark = pytest.mark.torch

NAMES = ("apple", "pear", "plum")
STACKED = ("group_norm_cnn", "vit", "conv1d", "batch_norm_cnn")
"""Those that torch computes in one call for many agents."""
LOOP = TrainingEngineSettings()


def network_of(name: str, head: registry.HeadKind = "linear") -> Network:
    factory, shape = OUTSIDE[name]
    return Network(ModuleBody(name, factory, shape), head)


def inputs_of(name: str, count: int, seed: int = 0) -> torch.Tensor:
    """Return float inputs; of tokens whole numbers, as float32 too."""
    random = np.random.default_rng(seed)
    shape = OUTSIDE[name][1]
    drawn = random.integers(0, 16, (count, *shape)) if name == "tokens" else None
    return torch.from_numpy(
        np.asarray(random.normal(size=(count, *shape)) if drawn is None else drawn, np.float32)
    )


def work_of(name: str, samples: int, agent: int = 0, **changes) -> Work:
    network = changes.pop("network", None) or network_of(name)
    parameters, buffers = to_tensors(network.initial(3, NAMES))
    targets = torch.from_numpy(np.random.default_rng(agent).integers(0, 3, samples))
    fields = {
        "loss": ComposedLoss(network, (Weighted(1.0, CrossEntropy()),)),
        "optimiser": Sgd((0.05, 0.02), momentum=0.9),
        "batching": Batching(8),
        "chance": Chance(5, f"agent-{agent}"),
    } | changes
    return Work(parameters, buffers, Data(inputs_of(name, samples, agent), targets), **fields)


def state(trained) -> dict[str, torch.Tensor]:
    return {**trained.parameters, **trained.buffers}


@pytest.mark.parametrize("name", OUTSIDE)
def test_tensors_are_those_of_the_modules_state_and_first_weights_are_the_seeds(name: str) -> None:
    network, factory, shape = network_of(name), *OUTSIDE[name]
    arrays = network.initial(3, NAMES)
    assert {key: array.shape for key, array in arrays.items()} == network.shapes(3)
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    module = factory(shape)
    trained = [f"body.{path}" for path, _ in module.named_parameters()]
    assert [key for key in arrays if key.startswith("body.") and not is_buffer(key)] == trained
    again, other = network.initial(3, NAMES), network.initial(4, NAMES)
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)
    assert any(not np.array_equal(arrays[key], other[key]) for key in trained)
    assert not any("num_batches_tracked" in key for key in arrays)


def test_batch_norms_follow_the_data_and_other_float_buffers_travel_too() -> None:
    names = [plan.name for plan in network_of("tokens").body.plan()]
    assert names[0] == "body.places.buffer"
    assert "body.order" not in names  # whole numbers stay as the factory makes them
    norms = [plan.name for plan in network_of("conv1d").body.plan()]
    assert norms[2:6] == [
        f"body.norm.{part}" for part in ("weight", "bias", "running_mean", "running_var")
    ]


def test_parameters_without_gradient_are_sent_and_not_trained() -> None:
    def half_frozen(shape):
        made = nn.Sequential(nn.Linear(shape[0], 5), nn.ReLU(), nn.Linear(5, 4))
        made[0].requires_grad_(False)
        return made

    network = Network(ModuleBody("half", half_frozen, (6,)))
    arrays = network.initial(1, NAMES)
    work = work_of("tokens", 32, network=network)
    work = replace(work, data=Data(torch.randn(32, 6), work.data.targets))
    trained = state(train_alone(work, LOOP))
    frozen = [key for key in arrays if key.startswith("body.0.")]
    assert frozen == ["body.0.weight.buffer", "body.0.bias.buffer"]
    for key, array in network.initial(3, NAMES).items():
        assert np.array_equal(trained[key].numpy(), array) == (key in frozen)


@pytest.mark.parametrize("name", [*STACKED, "lstm"])
def test_training_is_torchs_own_with_the_module_and_an_optimiser(name: str) -> None:
    work = work_of(name, 37, batching=Batching(8, smallest=4))
    network = network_of(name)
    module = module_with(network.body, network.initial(3, NAMES)).train()
    head = nn.Linear(network.width, 3)
    head.load_state_dict({key: work.parameters[f"head.{key}"] for key in ("weight", "bias")})
    optimiser = torch.optim.SGD([*module.parameters(), *head.parameters()], 0.05, momentum=0.9)
    for epoch, rate in enumerate(work.optimiser.rates):
        optimiser.param_groups[0]["lr"] = rate
        order = torch.from_numpy(work.chance.shuffled(epoch, 37))
        for rows in order.split(8):
            optimiser.zero_grad()
            scores = head(module(work.data.inputs[rows]))
            functional.cross_entropy(scores, work.data.targets[rows]).backward()
            optimiser.step()
    made = train_alone(work, LOOP)
    expected = {f"body.{key}": value for key, value in module.state_dict().items()}
    found = {key: value for key, value in state(made).items() if not key.startswith("head.")}
    expected = {key: value for key, value in expected.items() if key in found}
    assert largest_difference(found, expected) < 1e-5
    assert (made.steps, len(made.losses)) == (10, 2)


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_agent_alone_gets_the_same_bits_again_and_whatever_was_trained_before(name: str) -> None:
    work = work_of(name, 20)
    first = state(train_alone(work, LOOP))
    torch.manual_seed(9)
    train_alone(work_of(name, 20, agent=1), LOOP)
    before = torch.get_rng_state()
    again = state(train_alone(work, LOOP))
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert torch.equal(before, torch.get_rng_state())


def test_chance_is_the_agents_own() -> None:
    work = work_of("tokens", 24)
    first = state(train_alone(work, LOOP))
    other = state(train_alone(replace(work, chance=Chance(5, "another")), LOOP))
    assert any(not torch.equal(value, other[key]) for key, value in first.items())
    inputs = inputs_of("tokens", 4)
    with pytest.raises(TrainingError, match=r"source of chance; set mode\.seed"):
        forward(network_of("tokens"), work.parameters, work.buffers, inputs, Mode(training=True))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_model_in_use_changes_nothing_and_depends_on_each_sample_alone(name: str) -> None:
    network = network_of(name, "cosine")
    parameters, buffers = to_tensors(network.initial(3, NAMES))
    tensors = {**parameters, **buffers}
    before = {key: value.clone() for key, value in tensors.items()}
    inputs = inputs_of(name, 6)
    with torch.no_grad():
        outputs = forward(network, parameters, buffers, inputs, Mode())
        one = forward(network, parameters, buffers, inputs[2:3], Mode())
    assert outputs.features.shape == (6, network.width)
    np.testing.assert_allclose(one.logits[0], outputs.logits[2], atol=1e-5)
    assert all(torch.equal(before[key], value) for key, value in tensors.items())


def test_steps_of_a_module_are_carried_out_call_by_call_whatever_the_settings() -> None:
    work = work_of("conv1d", 16)
    with pytest.warns(RuntimeWarning, match="compiled, and the network is a torch module"):
        found = state(train_alone(work, TrainingEngineSettings(steps="compiled")))
    eager = state(train_alone(work, LOOP))
    assert all(torch.equal(value, found[key]) for key, value in eager.items())


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("head", ["linear", "hidden"])
def test_a_stack_of_ragged_agents_trains_as_each_alone(name: str, head: registry.HeadKind) -> None:
    network = replace(network_of(name, head), head_dropout=0.0)
    loss = ComposedLoss(network, (Weighted(1.0, CrossEntropy()),))
    works = [
        work_of(name, samples, agent, network=network, loss=loss)
        for agent, samples in enumerate((20, 13, 7, 16))
    ]
    for work, together in zip(works, train_stacked(works, LOOP), strict=True):
        alone = train_alone(work, LOOP)
        assert largest_difference(state(together), state(alone)) < 2e-4
        assert together.losses == pytest.approx(alone.losses, rel=1e-3)
        assert (together.steps, together.samples) == (alone.steps, alone.samples)


def test_what_cannot_be_stacked_is_trained_in_a_loop_and_told_once(caplog) -> None:
    alone_because.cache_clear()
    works = [work_of("lstm", 16, agent) for agent in range(3)]
    with caplog.at_level(logging.INFO, "learning.modules"):
        for _ in range(2):
            found = train(works, TrainingEngineSettings("auto"))
    assert caplog.messages == [
        message for message in caplog.messages if "'lstm' trains one agent after another" in message
    ]
    assert len(caplog.messages) == 1
    alone = [train_alone(work, LOOP) for work in works]
    for one, other in zip(found, alone, strict=True):
        assert all(torch.equal(value, state(other)[key]) for key, value in state(one).items())
    with pytest.raises(TrainingError, match="choose loop or auto"):
        train(works, TrainingEngineSettings("stack"))


def test_a_layer_of_ones_own_that_mixes_samples_is_found_by_the_try() -> None:
    class Mixing(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, 4)

        def forward(self, values):
            return self.layer(values - values.mean(0))

    body = ModuleBody("mixing", lambda shape: Mixing(*shape), (6,))
    assert not body.stackable
    assert "rows of one agent change those of others" in str(alone_because(body))
    drawing = ModuleBody("tokens", tokens, (7,))
    assert "it draws by chance" in str(alone_because(drawing))
    assert ModuleBody("tokens", tokens, (7,), (("dropout", 0.0),)).stackable


@dataclass(frozen=True)
class Sparse:
    """The mean size of an inner layer's outputs, and their distance from a teacher's."""

    layer: str
    teacher: str | None = None

    @property
    def inner(self) -> tuple[str, ...]:
        return (self.layer,)

    def __call__(self, step: Step) -> torch.Tensor:
        values = step.inner[self.layer]
        if self.teacher is not None:
            values = values - step.teacher(self.teacher).inner[self.layer]
        return values.abs().flatten(2 if step.stacked else 1).mean(-1).mean(-1)


@pytest.mark.parametrize(
    ("name", "layer"),
    [("batch_norm_cnn", "2"), ("lstm", "lstm"), ("vit", "encoder.layers.encoder_layer_0.mlp.0")],
)
def test_a_term_sees_inner_layers_by_name_and_a_teachers_too(name: str, layer: str) -> None:
    network = network_of(name)
    plain = work_of(name, 16)
    teacher = {
        "parameters": {k: v + 0.1 for k, v in plain.parameters.items()},
        "buffers": plain.buffers,
    }
    terms = (Weighted(1.0, CrossEntropy()), Weighted(0.5, Distillation("old")))
    seen = (*terms, Weighted(3.0, Sparse(layer)), Weighted(1.0, Sparse(layer, "old")))
    found = [
        train_alone(replace(plain, loss=ComposedLoss(network, each), frozen={"old": teacher}), LOOP)
        for each in (terms, seen)
    ]
    assert found[1].losses[0] > found[0].losses[0]
    if alone_because(network.body) is None:
        works = [
            replace(
                work_of(name, 16, agent), loss=ComposedLoss(network, seen), frozen={"old": teacher}
            )
            for agent in range(2)
        ]
        for work, together in zip(works, train_stacked(works, LOOP), strict=True):
            assert largest_difference(state(together), state(train_alone(work, LOOP))) < 2e-4


def test_inner_layers_of_the_packages_networks_have_the_names_of_their_tensors() -> None:
    network = build_network("convnet", (1, 8, 8))
    parameters, buffers = to_tensors(network.initial(1, NAMES))
    mode = Mode(inner=frozenset({"conv0", "norm1"}))
    outputs = forward(network, parameters, buffers, torch.randn(2, 1, 8, 8), mode)
    assert {name: tuple(values.shape) for name, values in outputs.inner.items()} == {
        "conv0": (2, 32, 8, 8),
        "norm1": (2, 64, 4, 4),
    }
    with pytest.raises(NetworkError, match="inner: no layer 'conv7' was passed; give one of conv0"):
        forward(
            network, parameters, buffers, torch.randn(2, 1, 8, 8), Mode(inner=frozenset({"conv7"}))
        )
    outside = network_of("batch_norm_cnn")
    given = to_tensors(outside.initial(1, NAMES))
    with pytest.raises(NetworkError, match="has no layer '9'; it has 0, 1, 2"):
        forward(outside, *given, torch.randn(2, 1, 8, 8), Mode(inner=frozenset({"9"})))


def test_running_statistics_are_measured_whatever_a_norms_momentum_is() -> None:
    network = network_of("conv1d")  # its momentum is 0.2
    parameters, buffers = to_tensors(network.initial(1, NAMES))
    inputs = inputs_of("conv1d", 12)
    found = measured_statistics(network, parameters, buffers, inputs.split(6))
    module = module_with(network.body, to_arrays(parameters, buffers))
    with torch.no_grad():
        values = [module.first(part) for part in inputs.split(6)]
    means = torch.stack([one.mean((0, 2)) for one in values]).mean(0)
    variances = torch.stack([one.var((0, 2)) for one in values]).mean(0)
    np.testing.assert_allclose(found["body.norm.running_mean"], means, atol=1e-6)
    np.testing.assert_allclose(found["body.norm.running_var"], variances, atol=1e-6)


def test_a_network_has_its_name_and_its_factorys_options(monkeypatch) -> None:
    monkeypatch.setitem(registry.NETWORKS._own, "mine", batch_norm_cnn)
    network = build_network("mine", (1, 8, 8), "linear", (("width", 5),))
    assert network.shapes(2)["body.0.weight"] == (5, 1, 3, 3)
    assert network == build_network("mine", (1, 8, 8), "linear", (("width", 5),))
    assert network != build_network("mine", (1, 8, 8))
    with pytest.raises(NetworkError, match="network_options: 'mlp' is a network of the package"):
        build_network("mlp", (4,), "linear", (("width", 5),))


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.phase = nn.Linear(6, 3), nn.Parameter(torch.ones(2, dtype=torch.cfloat))

    def forward(self, values):
        return self.layer(values)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.buffer = nn.Parameter(torch.ones(6))

    def forward(self, values):
        return values * self.buffer


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (lambda shape: nn.Linear(*shape), "cannot be made: TypeError"),
        (lambda shape: shape, "is a tuple; its factory must return a torch.nn.Module"),
        (
            lambda shape: nn.Linear(7, 3),
            r"inputs: network 'mine' cannot take \(2, 6\): RuntimeError",
        ),
        (
            lambda shape: nn.Unflatten(1, (2, 3)),
            r"makes torch.Size\(\[2, 2, 3\]\) .* pool or flatten",
        ),
        (lambda shape: nn.Identity(), "nothing to train"),
        (
            lambda shape: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, momentum=None)),
            "counts batches",
        ),
        (lambda shape: Complex(), "complex numbers in 'phase'"),
        (lambda shape: Named(), "a parameter 'buffer'; call it another name"),
    ],
)
def test_what_is_no_network_is_refused_with_a_way_out(factory, told: str) -> None:
    with pytest.raises(NetworkError, match=told):
        Network(ModuleBody("mine", factory, (6,))).initial(1, ())
