"""Privacy that answers to rounds have spent, and whom a round may still ask.

Every answer that was ever accepted counts, whether it is in a mean or not, in every lineage whose
answers have noise. It costs a Gaussian mechanism of the lineage's multiplier, whoever else was
asked: that a cohort is drawn by chance is not made use of, since the ledger says whom it asked and
its seed is no secret. So the spending follows from the entries alone. Answers without noise are not
counted: nothing hides what is in them.
"""

from __future__ import annotations

from functools import lru_cache

from fleetledger.coordinator.core.state import State
from fleetledger.learning.privacy.accounting import Spending, epsilon_of, multiplier_for
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.schemas.values import DeviceId

_ROUNDING = 1 + 1e-9


def spent(state: State, device: DeviceId) -> float | None:
    """Return epsilon that a device's answers have spent, at delta of the network that leads.

    None where its answers have no noise.
    """
    privacy = _privacy(state)
    if privacy is None:
        return None
    found = state.rounds.spent.get(device, 0.0)
    return epsilon_of([Spending(found**-0.5)] if found else [], privacy.delta)


def spends(state: State) -> bool:
    """Return whether an answer to the network that leads spends privacy."""
    return _privacy(state) is not None


def affords(state: State, device: DeviceId) -> bool:
    """Return whether one more answer stays within a device's budget."""
    privacy = _privacy(state)
    if privacy is None or privacy.epsilon is None:
        return True
    after = state.rounds.spent.get(device, 0.0) + privacy.noise**-2
    return after <= _allowed(privacy.epsilon, privacy.delta) * _ROUNDING


def fault(state: State, device: DeviceId) -> str:
    """Return why a device may give no further answer; empty where it may."""
    privacy = _privacy(state)
    if privacy is None or affords(state, device):
        return ""
    return (
        f"privacy: with this answer the device would spend more than epsilon {privacy.epsilon:g} "
        f"at delta {privacy.delta:g}; it is asked no more with this network"
    )


def overspent(state: State) -> tuple[DeviceId, float] | None:
    """Return a device that has spent more than the budget, and how much; None for none."""
    privacy = _privacy(state)
    if privacy is None or privacy.epsilon is None:
        return None
    allowed = _allowed(privacy.epsilon, privacy.delta) * _ROUNDING
    for device, found in state.rounds.spent.items():
        if found > allowed:
            return device, epsilon_of([Spending(found**-0.5)], privacy.delta)
    return None


def _privacy(state: State) -> UpdatePrivacy | None:
    privacy = state.lineages.answer_privacy
    return privacy if privacy is not None and privacy.noise else None


@lru_cache(maxsize=64)
def _allowed(epsilon: float, delta: float) -> float:
    """Return the largest sum of 1 / z^2 within a budget."""
    return multiplier_for(epsilon, delta) ** -2
