"""Means over rows that count: their gradients, and batches in which nothing counts."""

from __future__ import annotations

import pytest
import torch

from fleetledger.learning.losses.reduction import weighted_mean

pytestmark = pytest.mark.torch

VALUES = torch.tensor([[1.0, 2.0, 4.0], [3.0, torch.inf, 5.0], [1.0, 1.0, 1.0]]).double()
WEIGHT = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).double()


def test_rows_that_do_not_count_are_in_neither_mean_nor_gradient() -> None:
    values = VALUES.clone().requires_grad_()
    found = weighted_mean(values, WEIGHT)
    assert found.tolist() == [7 / 3, 4.0, 0.0]
    (slope,) = torch.autograd.grad(found.sum(), values)
    wanted = [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]
    assert torch.allclose(slope, torch.tensor(wanted).double())


def test_without_weights_all_rows_count_alike() -> None:
    values = VALUES[[0, 2]].clone().requires_grad_()
    alike = torch.ones_like(values)
    assert torch.equal(weighted_mean(values, None), weighted_mean(values, alike))
    grads = [
        torch.autograd.grad(weighted_mean(values, weight).sum(), values)[0]
        for weight in (None, alike)
    ]
    assert torch.equal(*grads)
