"""A simulated device's slots, in memory.

A real device switches by a link, so that it holds through a power cut
(`device_agent.models.slots`).
"""

from __future__ import annotations

from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.runtime.strict import Strict


class KeptSlots(Strict):
    """Models by slot."""

    active: Slot | None = None
    other: Slot | None = None
    candidate: Slot | None = None


class MemorySlots(ModelSlots):
    """The slots in memory; what each method promises is told by `ModelSlots`."""

    def __init__(self, kept: KeptSlots | None = None) -> None:
        self._kept = kept or KeptSlots()

    @property
    def kept(self) -> KeptSlots:
        """What is in them."""
        return self._kept

    def active(self) -> Slot | None:
        """Return the slot that is in use."""
        return self._kept.active

    def other(self) -> Slot | None:
        """Return the slot to which the device can go back."""
        return self._kept.other

    def candidate(self) -> Slot | None:
        """Return what is kept to be compared."""
        return self._kept.candidate

    def keep_candidate(self, slot: Slot) -> None:
        """Keep `slot` as candidate, in place of another one."""
        self._replace(self._kept.model_copy(update={"candidate": slot}))

    def forget_candidate(self) -> None:
        """Empty the third slot."""
        if self._kept.candidate is not None:
            self._replace(self._kept.model_copy(update={"candidate": None}))

    def install(self, slot: Slot) -> None:
        """Make `slot` active and keep the former one; what is active already stays so."""
        active = self._kept.active
        if active is not None and active.model == slot.model:
            self.change_active(slot)
        elif slot != active:
            self._replace(KeptSlots(active=slot, other=self._kept.active))
        self.forget_candidate()

    def change_active(self, slot: Slot) -> None:
        """Let the active model run on another variant."""
        if slot != self._kept.active:
            self._replace(self._kept.model_copy(update={"active": slot}))

    def go_back(self) -> Slot | None:
        """Make the other slot active and forget this one; return what is active then."""
        self._replace(KeptSlots(active=self._kept.other, candidate=self._kept.candidate))
        return self._kept.active

    def _replace(self, kept: KeptSlots) -> None:
        self._kept = kept
