"""Presence over the last day: spans and counts from comings and goings."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from fleetledger.coordinator.live import day
from fleetledger.coordinator.live.file import read_day
from fleetledger.coordinator.live.snapshot import LiveSnapshot, PresenceChange, serves
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId

Presence = Literal["here", "away", "unknown"]
GRACE_NS = 300 * day.SECOND_NS
"""So long after it is connected the coordinator waits for devices, before silence means away."""
SLOTS = 288
"""Of the fleet's day: five minutes each."""


class PresenceSpan(Strict):
    """For how long a device was there, was away, or nobody knew."""

    state: Presence
    first_ns: int
    last_ns: int

    @property
    def length_ns(self) -> int:
        """How long it lasted."""
        return self.last_ns - self.first_ns


class FleetPresence(Strict):
    """How many devices were there, in slots of equal length up to now."""

    first_ns: int
    last_ns: int
    here: tuple[int | None, ...]
    """The fewest at a time in each slot; None where nobody knew."""

    @property
    def known(self) -> list[tuple[int, int]]:
        """Slots in which something is known, each with its count."""
        return [(slot, count) for slot, count in enumerate(self.here) if count is not None]

    @property
    def hours(self) -> list[tuple[int, int | None]]:
        """When each of 24 parts of the day begins, with the fewest in it."""
        size = len(self.here) // 24
        parts = [self.here[at : at + size] for at in range(0, len(self.here), size)]
        return [
            (self.begins(size * at), min((one for one in part if one is not None), default=None))
            for at, part in enumerate(parts)
        ]

    def begins(self, slot: int) -> int:
        """Return when a slot begins, in nanoseconds since 1970."""
        return self.first_ns + (self.last_ns - self.first_ns) * slot // len(self.here)


@dataclass(frozen=True)
class PresenceDay:
    """What is remembered of the last day, up to now."""

    first_ns: int
    last_ns: int
    changes: tuple[PresenceChange, ...]

    @classmethod
    def read(
        cls, home: Path, live: LiveSnapshot | None, now_ns: int, device: str | None = None
    ) -> PresenceDay:
        """Return it of all devices, or of one; it begins with the first coordinator's."""
        name = None if device is None else DeviceId(device)
        found = read_day(home, partial(day.presence_changes, device=name))
        if live is not None and not serves(live.coordinator, now_ns):
            ended = live.coordinator.written_ns
            found = [change for change in found if change.time_ns <= ended]
            found.append(PresenceChange(day.COORDINATOR, ended, False))
        began = min((change.time_ns for change in found), default=now_ns)
        first_ns = max(began, now_ns - int(day.DAY_SECONDS * day.SECOND_NS))
        return cls(first_ns, now_ns, tuple(found))

    def of_device(self, device: str, since_ns: int = 0) -> tuple[PresenceSpan, ...]:
        """Return a device's spans, from its admission on; none where it was never seen."""
        if all(change.device != device for change in self.changes):
            return ()
        return spans(self.changes, device, max(self.first_ns, since_ns), self.last_ns)

    def of_fleet(self, devices: Iterable[str]) -> FleetPresence:
        """Return how many of some devices were there."""
        return fleet_presence(self.changes, devices, self.first_ns, self.last_ns)


def spans(
    changes: Iterable[PresenceChange], device: str, first_ns: int, last_ns: int
) -> tuple[PresenceSpan, ...]:
    """Return a device's presence between two times, without a gap; `changes` are in order.

    Nobody knows while no coordinator is connected. Who is not heard of within `GRACE_NS` after
    one is was away since.
    """
    told: list[tuple[int, Presence]] = []
    silent_ns: int | None = None
    """From when on silence means away; None where the device was heard, or nobody knows."""
    for change in changes:
        if change.device not in {day.COORDINATOR, device} or change.time_ns > last_ns:
            continue
        if silent_ns is not None and change.time_ns >= silent_ns:
            told.append((silent_ns, "away"))
        if change.device == day.COORDINATOR:
            told.append((change.time_ns, "unknown"))
            silent_ns = change.time_ns + GRACE_NS if change.here else None
        else:
            told.append((change.time_ns, "here" if change.here else "away"))
            silent_ns = None
    if silent_ns is not None and silent_ns < last_ns:
        told.append((silent_ns, "away"))
    return _joined([(first_ns, "unknown"), *told, (last_ns, "unknown")], first_ns, last_ns)


def _joined(
    told: Sequence[tuple[int, Presence]], first_ns: int, last_ns: int
) -> tuple[PresenceSpan, ...]:
    found: list[PresenceSpan] = []
    for (since_ns, state), (until_ns, _) in itertools.pairwise(told):
        begin, end = max(since_ns, first_ns), min(until_ns, last_ns)
        if begin < end:
            if found and found[-1].state == state:
                begin = found.pop().first_ns
            found.append(PresenceSpan(state=state, first_ns=begin, last_ns=end))
    return tuple(found)


def fleet_presence(
    changes: Sequence[PresenceChange], devices: Iterable[str], first_ns: int, last_ns: int
) -> FleetPresence:
    """Return how many of some devices were there between two times."""
    counted, there = frozenset(devices), set[str]()
    here: list[int | None] = [None] * SLOTS
    known_ns: int | None = None
    """From when on it is known who is there; None while it is not."""

    def note(begin_ns: int, end_ns: int) -> None:
        if known_ns is None:
            return
        begin_ns, end_ns = max(begin_ns, known_ns, first_ns), min(end_ns, last_ns)
        if begin_ns < end_ns:
            whole_ns = last_ns - first_ns
            first, last = (begin_ns - first_ns) * SLOTS, (end_ns - 1 - first_ns) * SLOTS
            for slot in range(first // whole_ns, last // whole_ns + 1):
                fewest = here[slot]
                here[slot] = len(there) if fewest is None else min(fewest, len(there))

    before_ns = first_ns
    for name, time_ns, comes in changes:
        if name != day.COORDINATOR and name not in counted:
            continue
        note(before_ns, time_ns)
        before_ns = time_ns
        if name == day.COORDINATOR:
            there.clear()
            known_ns = time_ns + GRACE_NS if comes else None
        elif comes:
            there.add(name)
        else:
            there.discard(name)
    note(before_ns, last_ns)
    return FleetPresence(first_ns=first_ns, last_ns=last_ns, here=tuple(here))
