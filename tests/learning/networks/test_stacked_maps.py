"""Layers on many agents' maps against the obvious way: one agent after another, by torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetledger.learning.networks.torch_layers import Mode, TorchLayers

pytestmark = pytest.mark.torch

AGENTS, ROWS, CHANNELS, SIDE = 3, 5, 4, 6
VALID = (5, 3, 2)
WEIGHT = (torch.arange(ROWS) < torch.tensor(VALID)[:, None]).double()
EVERY = torch.ones(AGENTS, ROWS, dtype=torch.float64)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def maps() -> Tensor:
    return drawn(AGENTS, ROWS, CHANNELS, SIDE, SIDE).requires_grad_()


def layers(parameters: dict[str, Tensor], buffers: dict[str, Tensor], mode: Mode) -> TorchLayers:
    return TorchLayers(parameters, buffers, mode)


def assert_alike(
    found: Tensor, wanted: Tensor, leaves: list[Tensor], weight: Tensor = EVERY
) -> None:
    """Values and gradients of the rows that count are equal to 1e-12."""
    counted = weight[..., None, None, None]
    assert torch.allclose(found * counted, wanted * counted, atol=1e-12)
    slope = drawn(*found.shape, seed=9) * counted
    got = torch.autograd.grad(found, leaves, slope)
    for one, other in zip(got, torch.autograd.grad(wanted, leaves, slope), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def one_by_one(values: Tensor, of: Callable[[int, Tensor], Tensor]) -> Tensor:
    return torch.stack([of(agent, values[agent]) for agent in range(AGENTS)])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "how",
    [{}, {"stride": 2}, {"dilation": 2}, {"groups": 2}],
    ids=["plain", "stride", "dilation", "groups"],
)
def test_a_convolution_is_that_of_each_agent(shared: bool, how: dict[str, int]) -> None:
    inside = CHANNELS // how.get("groups", 1)
    own = () if shared else (AGENTS,)
    kernel, bias = drawn(*own, 2, inside, 3, 3).requires_grad_(), drawn(*own, 2).requires_grad_()
    values, padding = maps(), how.get("dilation", 1)
    stack = layers({"c.weight": kernel, "c.bias": bias}, {}, Mode(weight=EVERY))

    def alone(agent: int, rows: Tensor) -> Tensor:
        tensors = (kernel, bias) if shared else (kernel[agent], bias[agent])
        return functional.conv2d(rows, *tensors, padding=padding, **how)

    leaves = [values, kernel, bias]
    assert_alike(stack.convolution("c", values, **how), one_by_one(values, alone), leaves)


@pytest.mark.parametrize("side", [2, 3])
def test_a_pool_is_that_of_each_agent(side: int) -> None:
    values = maps()
    stack = layers({}, {}, Mode(weight=EVERY))
    padding = (side - 1) // 2
    found = one_by_one(values, lambda _, rows: functional.max_pool2d(rows, side, 2, padding))
    assert_alike(stack.max_pool(values, side), found, [values])


def norms(gain: Tensor, shift: Tensor, buffers: dict[str, Tensor]) -> list[nn.BatchNorm2d]:
    """Torch's module for each agent, with its tensors."""
    made = []
    for agent in range(AGENTS):
        module = nn.BatchNorm2d(CHANNELS, eps=1e-3, momentum=0.3).double()
        own = [t[agent] if t.dim() > 1 else t for t in (gain, shift, *buffers.values())]
        module.weight, module.bias = nn.Parameter(own[0]), nn.Parameter(own[1])
        module.running_mean, module.running_var = own[2].clone(), own[3].clone()
        made.append(module)
    return made


def statistics(own: bool) -> dict[str, Tensor]:
    shape = (AGENTS, CHANNELS) if own else (CHANNELS,)
    return {
        "n.running_mean": drawn(*shape, seed=3),
        "n.running_var": drawn(*shape, seed=4).square() + 0.1,
    }


@pytest.mark.parametrize("pads", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("own_tensors", [False, True])
@pytest.mark.parametrize("own_statistics", [False, True])
def test_a_norm_and_its_statistics_are_those_of_torchs_module_on_the_rows_that_count(
    pads: bool, owned: bool, own_tensors: bool, own_statistics: bool
) -> None:
    shape = (AGENTS, CHANNELS) if own_tensors else (CHANNELS,)
    gain, shift = drawn(*shape, seed=1).requires_grad_(), drawn(*shape, seed=2).requires_grad_()
    buffers, values = statistics(own_statistics), maps()
    before = {name: tensor.clone() for name, tensor in buffers.items()}
    modules, weight = norms(gain.detach(), shift.detach(), buffers), WEIGHT if pads else EVERY
    mode = Mode(training=True, weight=weight, owned=owned, all_count=not pads)
    stack = layers({"n.weight": gain, "n.bias": shift}, buffers, mode)
    found = stack.batch_norm("n", values, epsilon=1e-3, momentum=0.3)

    def alone(agent: int, rows: Tensor) -> Tensor:
        counted = int(weight[agent].sum())
        module: Any = modules[agent]
        module(rows[:counted])  # its statistics follow
        tensors = [t if t.dim() == 1 else t[agent] for t in (gain, shift)]
        seen = functional.batch_norm(rows[:counted], None, None, *tensors, True, eps=1e-3)
        return torch.cat([seen, torch.zeros_like(rows[counted:])])

    assert_alike(found, one_by_one(values, alone), [values, gain, shift], weight)
    for agent, module in enumerate(modules):
        assert torch.allclose(stack.changed["n.running_mean"][agent], module.running_mean)
        assert torch.allclose(stack.changed["n.running_var"][agent], module.running_var)
    for name, tensor in buffers.items():
        followed = owned and own_statistics
        assert (stack.changed[name] is tensor) == followed
        assert torch.equal(tensor, before[name]) != followed, "only the engine's own may change"


@pytest.mark.parametrize("training", [False, True], ids=["in use", "frozen"])
@pytest.mark.parametrize("own_tensors", [False, True])
@pytest.mark.parametrize("own_statistics", [False, True])
def test_a_norm_in_use_follows_the_running_statistics(
    training: bool, own_tensors: bool, own_statistics: bool
) -> None:
    shape = (AGENTS, CHANNELS) if own_tensors else (CHANNELS,)
    gain, shift = drawn(*shape, seed=1).requires_grad_(), drawn(*shape, seed=2).requires_grad_()
    buffers, values = statistics(own_statistics), maps()
    mode = Mode(training=training, weight=WEIGHT, frozen_norm=True)
    stack = layers({"n.weight": gain, "n.bias": shift}, buffers, mode)

    def alone(agent: int, rows: Tensor) -> Tensor:
        tensors = [t if t.dim() == 1 else t[agent] for t in (*buffers.values(), gain, shift)]
        return functional.batch_norm(rows, *tensors, eps=1e-3)

    found = stack.batch_norm("n", values, epsilon=1e-3)
    assert_alike(found, one_by_one(values, alone), [values, gain, shift])
    assert not stack.changed
