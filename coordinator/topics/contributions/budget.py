"""The budget of differential privacy: what a device's parts have spent, and what is too much.

Every part that was ever accepted with noise counts, whatever became of it: who read it has read it.
The spending follows from the entries of the lineage and of its parts alone, so whoever has the
ledger can compute it again. Parts without noise are not counted: nothing hides what is in them.
"""

from __future__ import annotations

from fleetledger.coordinator.core.state import State
from fleetledger.learning.privacy.accounting import epsilon_of
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId

_ROUNDING = 1 + 1e-9


def spent(state: State, device: DeviceId) -> float | None:
    """Return epsilon that a device's parts have spent, at delta of the lineage that leads.

    None where parts of that lineage have no noise.
    """
    noise = state.lineages.noise
    if noise is None:
        return None
    return epsilon_of(state.contributions.spendings(device, noise), noise.delta)


def fault(state: State, device: DeviceId, part: PartKey) -> str | None:
    """Say why a part would spend more than the budget; None where it would not."""
    noise = state.lineages.noise
    if noise is None:
        return None
    after = epsilon_of(state.contributions.spendings(device, noise, part), noise.delta)
    if after <= noise.epsilon * _ROUNDING:
        return None
    whose = "of an image" if noise.protects == "image" else "of the device"
    return (
        f"privacy: with this part the budget {whose} would be spent to epsilon {after:.3g} of "
        f"{noise.epsilon:g} at delta {noise.delta:g}; nothing more is taken from this device until "
        "the operator begins with a frozen model of another [privacy.noise]"
    )


def overspent(state: State) -> tuple[DeviceId, float] | None:
    """Return a device that has spent more than the budget, and how much; None for none."""
    noise = state.lineages.noise
    for device in state.contributions.noisy:
        epsilon = spent(state, device)
        if noise is not None and epsilon is not None and epsilon > noise.epsilon * _ROUNDING:
            return device, epsilon
    return None
