"""The kinds of ledger entry about time: a calendar that was set right, devices gone silent."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from coordinator.core.entry import EntryBody
from schemas.values import DeviceId

MAX_NAMED = 1000
"""Devices named in one entry; of more there are several entries."""


class ClockCorrected(EntryBody):
    """The operator says that entries so far have the times of a wrong calendar.

    The times of later entries are by the right one, and what waits goes on waiting as long as it
    would have.
    """

    kind: ClassVar[str] = "clock.corrected"
    by_ns: int = Field(gt=-(2**63), lt=2**63)
    """Nanoseconds by which time is set back; below 0 for a calendar that was behind."""


class DevicesSilent(EntryBody):
    """Nothing came of these devices for long that could be believed."""

    kind: ClassVar[str] = "devices.silent"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)
    seconds: int = Field(ge=0)
    """For so long at least."""


class DevicesHeard(EntryBody):
    """These devices were silent, and are heard again."""

    kind: ClassVar[str] = "devices.heard"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)
