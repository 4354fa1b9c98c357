"""A virtual device's two slots: one small file, read once while the agent is awake.

A real device switches by a link, so that it holds through a power cut (`device_agent.slots`). Here
only the program can die, and a file that is replaced in one step holds through that.
"""

from __future__ import annotations

from pathlib import Path

from device_agent.slots import ModelSlots, Slot
from device_agent.store.blobs import write_durably
from schemas.message import Strict


class _Both(Strict):
    """What the file says."""

    active: Slot | None = None
    other: Slot | None = None


class QuickSlots(ModelSlots):
    """The two slots in the file at `path`; what each method promises is told by `ModelSlots`."""

    def __init__(self, path: Path) -> None:
        self._path_of_both = path
        self._both = _Both.model_validate_json(path.read_bytes()) if path.exists() else _Both()

    @classmethod
    def within(cls, state_folder: Path) -> QuickSlots:
        """Return the slots of the device that keeps its things in a folder."""
        return cls(state_folder / "slots.json")

    def active(self) -> Slot | None:
        """Return the slot that is in use."""
        return self._both.active

    def other(self) -> Slot | None:
        """Return the slot to which the device can go back."""
        return self._both.other

    def install(self, slot: Slot) -> None:
        """Make `slot` active and keep the former one; nothing happens if it is active already."""
        if slot != self._both.active:
            self._replace(_Both(active=slot, other=self._both.active))

    def go_back(self) -> Slot | None:
        """Make the other slot active and forget this one; return what is active then."""
        self._replace(_Both(active=self._both.other))
        return self._both.active

    def _replace(self, both: _Both) -> None:
        write_durably(self._path_of_both, both.model_dump_json().encode("utf-8"), durable=False)
        self._both = both
