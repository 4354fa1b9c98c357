"""What the state knows of how much each device added to the ledger today."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fleetledger.schemas.values import DeviceId

DAY_NS = 86_400 * 1_000_000_000

What = Literal[
    "births",
    "cohort_messages",
    "comparisons",
    "contributions",
    "evaluations",
    "key_changes",
    "model_statuses",
    "nothings",
    "problems",
    "transitions",
    "withdrawals",
]
"""What devices add, as settings name it."""


@dataclass
class DeviceDay:
    """Entries of one device on one day of UTC, by the times of entries."""

    day: int
    entries: dict[What, int] = field(default_factory=dict)
    body_bytes: int = 0
    """Bytes of the bodies of these entries, as JSON."""
    payload_bytes: int = 0
    """Bytes of the payloads that they keep for good."""


@dataclass
class DailyState:
    """The newest day of every device that added something."""

    by_device: dict[DeviceId, DeviceDay] = field(default_factory=dict)

    def of(self, device: DeviceId, time_ns: int) -> DeviceDay:
        """Return what a device added on the day of a time, to read."""
        day, known = time_ns // DAY_NS, self.by_device.get(device)
        return known if known is not None and known.day == day else DeviceDay(day)

    def add(self, device: DeviceId, time_ns: int, what: What, sizes: tuple[int, int]) -> None:
        """Count an entry, with the bytes of its body and of its payload."""
        found = self.by_device[device] = self.of(device, time_ns)
        found.entries[what] = found.entries.get(what, 0) + 1
        found.body_bytes += sizes[0]
        found.payload_bytes += sizes[1]
