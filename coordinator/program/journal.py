"""The coordinator's log of itself: entries that it commits, devices that come and go.

The committed entries are the events. Each is said with its sentence, at the level that its kind
has in its topic; of one kind so many in ten seconds, and a sum of the rest. Who comes and goes is
no entry, and is said as well. Nothing here decides, and nothing waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from fleetledger.coordinator.core.entry import EntryBody, EntryContext, NewEntry
from fleetledger.coordinator.core.inputs import DeviceMessage, Input
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.state import KINDS
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import FIELDS, LogEvent, Scalar
from fleetledger.runtime.log_setup import EventLog
from fleetledger.schemas.contributions import Part
from fleetledger.schemas.envelope import Envelope
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth, Death
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.connection_log import say_connection
from fleetledger.transport.interface import Connected, ConnectionProblem, Disconnected

COORDINATOR_EVENTS = {
    "device.online": "a device is there; where its run is new, the entry `device.born` says it",
    "device.away": "it is gone, and why",
    "broker.password_misused": "a user of the broker connects as somebody else, or too often",
}
"""What the coordinator says of devices that is no entry."""


class Journal:
    """Says what happens; one thread uses it."""

    def __init__(self, clock: Clock, live: Live) -> None:
        self._events = EventLog("coordinator.events", clock.seconds)
        self._live = live
        self._here: dict[DeviceId, BootId | None] = {}
        """The run of each device that was here when it was said."""

    def committed(self, first: int, entries: Sequence[NewEntry]) -> None:
        """Say a group of entries that is on the disk; the first has the index `first`."""
        if not self._events.on:
            return
        for index, entry in enumerate(entries, start=first):
            kind, body = KINDS[entry.body.kind], entry.body
            device, level = _device_of(entry), kind.level(body)
            if entry.device is not None and hasattr(body, "boot"):
                self._here[entry.device] = body.boot  # its sentence says that it is here
            if self._events.wants(level, body.kind, device, index):
                text = body.say(EntryContext(index, entry.device))
                self._events.say(level, event_of(body, index, device), text)

    def heard(self, happenings: Iterable[Input]) -> None:
        """Say which devices have come or gone with these inputs, once they were decided about."""
        if not self._events.on:
            return
        for happening in happenings:
            if isinstance(happening, DeviceMessage):
                known = self._live.devices.get(happening.device)
                boot = None if known is None else known.boot
                if self._here.get(happening.device) != boot:
                    self._here[happening.device] = boot
                    self._say_presence(happening.device, boot, happening.envelope)
        self._events.sum_up()

    def broker(self, event: Connected | Disconnected | ConnectionProblem) -> None:
        """Say how the connection to the broker is."""
        say_connection(self._events, event)

    def close(self) -> None:
        """Say what was held back."""
        self._events.sum_up(all_of_it=True)

    def _say_presence(self, device: DeviceId, boot: BootId | None, envelope: Envelope) -> None:
        if boot is not None:
            found = "" if envelope.header.kind == Birth.kind else ", found late by its heartbeat"
            event = LogEvent("device.online", device, more={"boot": str(boot)})
            self._events.emit(logging.INFO, event, f"Device {device} is online{found}.")
            return
        reason = _why_away(envelope)
        event = LogEvent("device.away", device, more={"reason": reason} if reason else {})
        why = f": {reason}" if reason else ""
        self._events.emit(logging.INFO, event, f"Device {device} is away{why}.")


def event_of(body: EntryBody, index: int, device: DeviceId | None) -> LogEvent:
    """Return what a program is told of an entry: words and numbers of its body and its message."""
    values: dict[str, object] = dict(body)
    for message in [value for value in values.values() if isinstance(value, Message | Part)]:
        values = {**dict(message), **values}
    key = values.get("key")
    if body.kind.partition(".")[0] in _OF_ROUNDS:
        values["round"] = values.pop("number", None)
    found = {name: _number(values.get(name, getattr(key, name, None))) for name in _NUMBERS}
    return LogEvent(
        body.kind,
        device,
        index,
        stage=found["stage"],
        round=found["round"],
        version=found["version"],
        more={
            name: value
            for name, value in _scalars(values)
            if name not in FIELDS and value is not None
        },
    )


_NUMBERS = ("stage", "round", "version")
_OF_ROUNDS = ("round", "rounds", "weights", "old-model")
"""Kinds of entry, up to the point, whose `number` is that of a round."""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _scalars(values: dict[str, object]) -> Iterable[tuple[str, Scalar]]:
    for name, value in values.items():
        if isinstance(value, str | int | float | bool):
            yield name, value


def _device_of(entry: NewEntry) -> DeviceId | None:
    named: DeviceId | None = getattr(entry.body, "device", None)
    return entry.device or named


def _why_away(envelope: Envelope) -> str:
    if envelope.header.kind != Death.kind:
        return ""
    try:
        return envelope.read(Death).reason
    except SchemaError:
        return ""
