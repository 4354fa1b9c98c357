"""How much one device may add to the ledger in a day; what is beyond is told "later".

A ledger keeps everything for good, so that a quota by the minute bounds nothing. These bounds are
far above what a device does that works: see `docs/scale.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import DailyRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.daily.entries import counted_as, size_of
from fleetledger.coordinator.topics.daily.state import DAY_NS, What
from fleetledger.schemas.values import DeviceId

_MIB = 1 << 20
_LONGEST_SECONDS = 3600.0


class Daily:
    """Decides whether a device may add something today."""

    def __init__(self, rules: DailyRules, state: State) -> None:
        self._rules = rules
        self._state = state

    def fault(self, device: DeviceId, bodies: Iterable[EntryBody], now_ns: int) -> str | None:
        """Say why what a device adds is more than it may today; None if it is not."""
        for body in bodies:
            what = counted_as(body)
            if what is not None:
                fault = self._beyond(device, what, size_of(body), now_ns)
                if fault is not None:
                    return fault
        return None

    def payload_fault(self, device: DeviceId, payload_bytes: int, now_ns: int) -> str | None:
        """Say the same of a contribution, before its payload is taken in."""
        today = self._state.daily.of(device, now_ns)
        most = self._rules.payload_mib * _MIB
        if today.payload_bytes + payload_bytes > most and today.payload_bytes:
            return _said(f"{self._rules.payload_mib} MiB of payloads", "payload_mib")
        return self._beyond(device, "contributions", 0, now_ns)

    def seconds_left(self, now_ns: int) -> float:
        """Return in how many seconds to ask again: when the next day begins, at most an hour."""
        return min((DAY_NS - now_ns % DAY_NS) / 1e9, _LONGEST_SECONDS)

    def _beyond(self, device: DeviceId, what: What, size: int, now_ns: int) -> str | None:
        today = self._state.daily.of(device, now_ns)
        most: int = getattr(self._rules, what)
        if today.entries.get(what, 0) >= most:
            return _said(f"{most} {what.replace('_', ' ')}", what)
        if today.body_bytes + size > self._rules.body_mib * _MIB:
            return _said(f"{self._rules.body_mib} MiB of entries", "body_mib")
        return None


def _said(most: str, setting: str) -> str:
    return (
        f"today: more than {most} of this device; the rest is taken in from the next day (UTC) on, "
        f"or the operator raises [daily] {setting}"
    )
