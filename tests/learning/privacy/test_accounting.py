"""Epsilon of releases is what dp-accounting says, and never less than what is true."""

from __future__ import annotations

from math import exp, inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.errors import PrivacyError
from fleetledger.learning.privacy.accounting import (
    _SAMPLED_ORDERS,
    ORDERS,
    Spending,
    epsilon_of,
    multiplier_for,
)

DELTA = 1e-5


def true_epsilon(multiplier):
    """Return epsilon of one continuous Gaussian release (Balle and Wang 2018), by bisection."""
    norm = pytest.importorskip("scipy.stats").norm

    def delta(epsilon):
        near, far = 1 / (2 * multiplier) - epsilon * multiplier, -1 / (2 * multiplier)
        return norm.cdf(near) - exp(epsilon) * norm.cdf(far - epsilon * multiplier)

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    return high


@pytest.mark.parametrize(("epsilon", "sigma"), [(1, 3.7306), (3, 1.3906), (8, 0.6002)])
def test_the_noise_for_a_budget_is_little_more_than_the_best_possible(epsilon, sigma):
    multiplier = multiplier_for(epsilon, DELTA)
    assert sigma < multiplier < 1.1 * sigma
    assert epsilon_of([Spending(multiplier)], DELTA) <= epsilon
    assert epsilon_of([Spending(multiplier * 0.999)], DELTA) > epsilon


@given(st.floats(0.5, 30))
def test_epsilon_is_never_less_than_the_true_one(multiplier):
    told = epsilon_of([Spending(multiplier)], DELTA)
    assert true_epsilon(multiplier) <= told + 1e-9


@given(st.lists(st.floats(0.5, 50), min_size=1, max_size=5))
def test_releases_compose_as_one_with_the_noise_of_all(multipliers):
    together = 1 / sqrt(sum(1 / multiplier**2 for multiplier in multipliers))
    told = epsilon_of([Spending(multiplier) for multiplier in multipliers], DELTA)
    assert told == pytest.approx(epsilon_of([Spending(together)], DELTA))


def test_nothing_released_spends_nothing():
    assert epsilon_of([], DELTA) == 0
    assert epsilon_of([Spending(1.0, times=0)], DELTA) == 0


@pytest.mark.parametrize("multiplier", [0.4, 1.0, 4.0, 40.0])
def test_dp_accounting_says_the_same(multiplier):
    accounting = pytest.importorskip("dp_accounting")
    accountant = accounting.rdp.RdpAccountant(ORDERS)
    accountant.compose(accounting.GaussianDpEvent(multiplier), 3)
    told = epsilon_of([Spending(multiplier, times=3)], DELTA)
    assert told == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-9)


def test_a_sample_of_devices_spends_less_and_everybody_the_same():
    pytest.importorskip("dp_accounting")
    rounds = epsilon_of([Spending(1.0, times=20)], DELTA)
    poisson = epsilon_of([Spending(1.0, 20, 50, 1000, poisson=True)], DELTA)
    fixed = epsilon_of([Spending(1.0, 20, 50, 1000)], DELTA)
    assert poisson < fixed < rounds
    assert epsilon_of([Spending(1.0, 20, 1000, 1000)], DELTA) == rounds


def test_sampled_and_other_releases_compose():
    accounting = pytest.importorskip("dp_accounting")
    accountant = accounting.rdp.RdpAccountant(_SAMPLED_ORDERS)
    event = accounting.PoissonSampledDpEvent(0.05, accounting.GaussianDpEvent(1.2))
    accountant.compose(event, 10).compose(accounting.GaussianDpEvent(3.0))
    told = epsilon_of([Spending(1.2, 10, 5, 100, poisson=True), Spending(3.0)], DELTA)
    assert told == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-9)


def test_sampled_rounds_find_their_noise():
    pytest.importorskip("dp_accounting")
    like = Spending(1.0, 30, 20, 1000, poisson=True)
    multiplier = multiplier_for(2.0, DELTA, like)
    assert epsilon_of([Spending(multiplier, 30, 20, 1000, poisson=True)], DELTA) <= 2.0


@pytest.mark.parametrize("delta", [0, 1, -1e-5])
def test_a_delta_that_is_no_chance_is_refused(delta):
    with pytest.raises(PrivacyError, match="delta"):
        epsilon_of([Spending(1.0)], delta)


def test_impossible_releases_and_budgets_are_refused():
    with pytest.raises(PrivacyError, match="multiplier"):
        Spending(0.0)
    with pytest.raises(PrivacyError, match="chosen"):
        Spending(1.0, 1, 5, 4)
    for epsilon in (0.0, inf, 1e-9):
        with pytest.raises(PrivacyError, match="epsilon"):
            multiplier_for(epsilon, DELTA)
