"""Rates against torch's own schedulers."""

import pytest

from fleetledger.learning.training.schedules import (
    constant_rates,
    cosine_rate,
    polynomial_rates,
    stepped_rates,
)


def rates_of_torch(make, epochs):
    import torch

    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler, rates = make(torch.optim.lr_scheduler, optimiser), []
    for _ in range(epochs):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


def test_constant_rates_are_constant():
    assert constant_rates(0.1, 3) == (0.1, 0.1, 0.1)
    assert constant_rates(0.1, 0) == ()


@pytest.mark.torch
def test_steps_are_those_of_torch():
    wanted = rates_of_torch(lambda s, o: s.MultiStepLR(o, [2, 5], 0.1), 8)
    assert stepped_rates(0.4, 8, [2, 5]) == pytest.approx(wanted)
    assert stepped_rates(0.4, 3, [2, 5], first=4) == pytest.approx(wanted[4:7])


@pytest.mark.torch
def test_the_cosine_is_that_of_torch():
    wanted = rates_of_torch(lambda s, o: s.CosineAnnealingLR(o, 10), 10)
    assert [cosine_rate(0.4, number, 10) for number in range(10)] == pytest.approx(wanted)


@pytest.mark.torch
def test_the_polynomial_is_that_of_torch():
    wanted = rates_of_torch(lambda s, o: s.PolynomialLR(o, 10, power=0.9), 10)
    assert polynomial_rates(0.4, 10, 0, 10, 0.9) == pytest.approx(wanted)
    assert polynomial_rates(0.4, 3, 4, 10, 0.9) == pytest.approx(wanted[4:7])
    assert polynomial_rates(0.4, 2, 9, 10, 0.9)[1] == 0
