"""The kinds of ledger entry about two installations that run under one device's name."""

from __future__ import annotations

from typing import ClassVar

from coordinator.core.entry import EntryBody
from schemas.values import BootId, DeviceId


class DeviceDoubled(EntryBody):
    """Two installations were alive under one name: nothing of the device is taken in or out."""

    kind: ClassVar[str] = "device.doubled"
    device: DeviceId
    runs: tuple[BootId, BootId]
    """A run of each, by which it is named to the operator."""
    installations: tuple[BootId, BootId]
    """What they call themselves; the same of a copy."""


class DeviceSettled(EntryBody):
    """The operator said which of two installations goes on under a device's name."""

    kind: ClassVar[str] = "device.settled"
    device: DeviceId
    kept: BootId
    """A run of the one that goes on."""
    shut_out: BootId
    """A run of the other one; nothing of it is taken in any more."""
