"""Batch normalisation of many agents' padded rows: values and gradients of the obvious formula."""

from __future__ import annotations

import pytest
import torch

from fleetledger.learning.networks.body import EPSILON
from fleetledger.learning.networks.stacked_norm import masked_norm

pytestmark = pytest.mark.torch

AGENTS, ROWS, WIDTH = 3, 5, 4
VALID = torch.tensor([5, 3, 2])
WEIGHT = (torch.arange(ROWS) < VALID[:, None]).double()
SHARE = WEIGHT / WEIGHT.sum(dim=1, keepdim=True)


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def slow(values: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """One agent after another, on its valid rows alone; rows that pad stay zero."""
    found = torch.zeros_like(values)
    for agent, valid in enumerate(VALID.tolist()):
        rows = values[agent, :valid]
        own = gain[agent] if gain.dim() > 1 else gain, shift[agent] if shift.dim() > 1 else shift
        rate = torch.rsqrt(rows.var(dim=0, unbiased=False) + EPSILON)
        found[agent, :valid] = own[0] * (rows - rows.mean(dim=0)) * rate + own[1]
    return found


@pytest.mark.parametrize("shared", [False, True])
def test_it_is_the_normalisation_of_each_agents_valid_rows(shared: bool) -> None:
    shape = (WIDTH,) if shared else (AGENTS, WIDTH)
    values, gain, shift = drawn(AGENTS, ROWS, WIDTH), drawn(*shape), drawn(*shape[::-1])
    shift = shift if shared else shift.detach().T.clone().requires_grad_()
    found, mean, variance = masked_norm(values, gain, shift, SHARE)
    counted = WEIGHT.unsqueeze(-1)
    slope = drawn(AGENTS, ROWS, WIDTH).detach() * counted
    leaves = (values, gain, shift)
    assert torch.allclose(found * counted, slow(*leaves), atol=1e-12)
    got = torch.autograd.grad(found, leaves, slope)
    wanted = torch.autograd.grad(slow(*leaves), leaves, slope)
    for one, other in zip(got, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    for agent, valid in enumerate(VALID.tolist()):
        rows = values[agent, :valid]
        assert torch.allclose(mean[agent], rows.mean(dim=0))
        assert torch.allclose(variance[agent], rows.var(dim=0, unbiased=False))
    assert not mean.requires_grad
    assert not variance.requires_grad
