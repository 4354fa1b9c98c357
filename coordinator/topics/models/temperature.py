"""The inverse temperature of heads, fitted on what devices measured on their held-out images.

Every evaluation carries its losses on a grid of scales; they add up over the devices. The scale
with the smallest sum goes into the next model. A scale that is hardly better changes nothing: the
devices' histories of entropies begin anew with another scale.
"""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.entries import TemperatureFitted
from fleetledger.learning.numerics import calibration

MIN_IMAGES = 50
"""Held-out images of the fleet below which nothing is fitted."""
MIN_GAIN = 0.01
"""Nats per image by which another scale has to be better than the one in use."""


class Temperature:
    """Decides which scale the next models get."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._weighed_size: int | None = None

    def due(self) -> Decision:
        """Record a scale that is better than the one in use."""
        if self._weighed_size == self._state.size:
            return Decision()
        self._weighed_size = self._state.size
        fitted = self._fitted()
        return record(fitted) if fitted is not None else Decision()

    def _fitted(self) -> TemperatureFitted | None:
        state = self._state
        usable = [
            item
            for item in state.models.calibration.values()
            if len(item.losses) == len(calibration.LOGIT_SCALES)
        ]
        images = sum(item.images for item in usable)
        if images < MIN_IMAGES or state.models.calibrated_version is None:
            return None
        losses = calibration.add_losses(item.losses for item in usable)
        best = calibration.best_scale(losses)
        least = losses[calibration.LOGIT_SCALES.index(best)]
        in_use = state.models.logit_scale
        if in_use is None and state.lineages.in_rounds:
            in_use = calibration.TRAINED_SCALE
        if in_use in calibration.LOGIT_SCALES:
            gain = losses[calibration.LOGIT_SCALES.index(in_use)] - least
            if gain * calibration.LOSS_UNIT < MIN_GAIN * images:
                return None
        return TemperatureFitted(
            version=state.models.calibrated_version,
            logit_scale=best,
            images=images,
            devices=len(usable),
            nats_per_image=least * calibration.LOSS_UNIT / images,
        )
