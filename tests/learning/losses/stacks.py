"""What tests of losses in a stack of agents have in common."""

import numpy as np
import pytest
import torch


def t(array):
    return torch.from_numpy(np.array(array))


def members(mask):
    return np.flatnonzero(mask).tolist()


def weight_of(valid, rows):
    """1 for the first rows of each agent, as many as are valid, and 0 for the rest."""
    weight = torch.zeros(len(valid), rows, dtype=torch.float64)
    for agent, count in enumerate(valid):
        weight[agent, :count] = 1
    return weight


def check_stack(form, valid, weight):
    """Each agent has its own loss over its valid rows; the last, without any, has none."""
    fast, reference = form
    values = fast(t, weight)
    wanted = [reference(agent, rows) for agent, rows in enumerate(valid)]
    assert values.tolist() == pytest.approx(wanted, rel=1e-10, abs=1e-12)
    assert values[-1] == 0


def check_gradient(form, inputs, weight):
    """The gradient is that of finite differences, zero for rows that are not valid."""
    fast, _ = form

    def of(values):
        return fast(lambda array: values if array is inputs else t(array), weight)

    values = t(inputs).requires_grad_()
    assert torch.autograd.gradcheck(of, values)
    gradient = torch.autograd.grad(of(values).sum(), values)[0]
    assert bool((gradient[weight == 0] == 0).all())
    assert bool((gradient != 0).any())
