"""Who takes part, who runs, who is silent, and which names two installations have."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import TOLD, Follows, Kind, LedgerTopic, Notification
from fleetledger.coordinator.core.phrases import some, span
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.devices import state
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.tags import MAX_TAGS, TagName, Tags
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.schemas.wire import WireRange

MAX_REASON = 300
MAX_NAMED = 1000
"""Devices named in one entry; of more there are several entries."""
_SECOND_NS = 1_000_000_000


class DeviceAdmitted(EntryBody):
    """The operator lets a device take part."""

    kind: ClassVar[str] = "device.admitted"
    device: DeviceId

    def say(self, at: EntryContext) -> str:
        return f"Device {self.device} may take part from here on."


def _admit(devices: state.DevicesState, body: DeviceAdmitted, at: EntryContext) -> None:
    """Let a device in; one that was retired comes back as it was."""
    if body.device not in devices.admitted:
        device = devices.retired.pop(body.device, None) or state.Device(admitted_index=at.index)
        device.admitted_ns, device.retirement = at.time_ns, None
        devices.admitted[body.device] = device


class DeviceRetired(EntryBody):
    """The operator takes a device out of the fleet, until it is admitted again."""

    kind: ClassVar[str] = "device.retired"
    device: DeviceId
    reason: str = Field(min_length=1, max_length=MAX_REASON)

    def say(self, at: EntryContext) -> str:
        return (
            f"The operator retired device {self.device}: nothing waits for it, and nothing of it "
            f"is taken in until it is admitted again. Reason: {self.reason}."
        )


def _retire(devices: state.DevicesState, body: DeviceRetired, at: EntryContext) -> None:
    device = devices.admitted.pop(body.device)
    device.silent_ns = None
    device.retirement = state.Retirement(at.index, at.time_ns, body.reason)
    devices.retired[body.device] = device


class DeviceBorn(EntryBody):
    """A device connected with a new boot."""

    kind: ClassVar[str] = "device.born"
    boot: BootId
    installation: BootId
    capabilities: Capabilities
    formers: tuple[BootId, ...] = ()
    """The runs of its installation before this one, newest first."""
    tags: Tags = Field(default={}, exclude_if=is_absent)
    """What its owner says of it."""
    wire: WireRange = WireRange()
    """Versions of the wire that it speaks."""
    refused_by: WireRange | None = Field(default=None, exclude_if=is_absent)
    """Versions that the coordinator speaks, where the device speaks none of them."""

    def say(self, at: EntryContext) -> str:
        able = self.capabilities
        torch = "torch" if "torch" in able.features else "no torch, so that it trains no network"
        told = (
            f"Device {at.device} connected (boot {self.boot}): {able.machine}, Python "
            f"{able.python}, ONNX Runtime provider {able.provider or 'none'}, {torch}."
        )
        if self.refused_by is None:
            return told
        return (
            f"{told} It speaks {self.wire} of the wire and this coordinator {self.refused_by}, so "
            "it is not led."
        )


def _begin_run(devices: state.DevicesState, body: DeviceBorn, at: EntryContext) -> None:
    device = devices.admitted[at.maker]
    if body.boot != device.boot:
        device.former_boot = device.boot
    device.boot, device.installation = body.boot, body.installation
    device.born_index, device.formers = at.index, body.formers
    device.capabilities = _shared(body.capabilities)
    device.owners_tags = body.tags or state.NO_TAGS
    device.wire, device.refused_by = _shared_range(body.wire), body.refused_by
    devices.problems.pop(at.maker, None)  # a device tells its problems once in every run


@lru_cache(maxsize=256)
def _shared(capabilities: Capabilities) -> Capabilities:
    """Return one object for equal ones: a fleet has few kinds of device."""
    return capabilities


@lru_cache(maxsize=256)
def _shared_range(wire: WireRange) -> WireRange:
    return wire


class DeviceTagged(EntryBody):
    """The operator says something of devices, over what their owners say."""

    kind: ClassVar[str] = "device.tagged"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)
    tags: Tags = Field(default={})
    removed: tuple[TagName, ...] = Field(default=(), max_length=MAX_TAGS)
    """Tags that they have no more; one that the owner says does not count."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        both = self.tags.keys() & set(self.removed)
        if both:
            raise ValueError(f"removed: {min(both)!r} is among the tags, too; give it once")
        return self

    def say(self, at: EntryContext) -> str:
        now = [f"{name}={value}" for name, value in self.tags.items()]
        gone = [f"no {name} any more" for name in self.removed]
        return f"Tags of {some(self.devices)}: {', '.join((*now, *gone))}."


def _tag(devices: state.DevicesState, body: DeviceTagged, _at: EntryContext) -> None:
    for name in body.devices:
        device = devices.admitted[name]
        device.operators_tags = device.retagged(body.tags, body.removed)


class DeviceDoubled(EntryBody):
    """Two installations were alive under one name: nothing of the device is taken in or out."""

    kind: ClassVar[str] = "device.doubled"
    device: DeviceId
    runs: tuple[BootId, BootId]
    """A run of each, by which it is named to the operator."""
    installations: tuple[BootId, BootId]
    """What they call themselves; the same of a copy."""

    def say(self, at: EntryContext) -> str:
        one, other = self.runs
        return (
            f"Two installations run as device {self.device}: {one} and {other}. What it gave stays "
            "as it is, until the operator says which one goes on."
        )


def _freeze(devices: state.DevicesState, body: DeviceDoubled, at: EntryContext) -> None:
    """Freeze what a device gave; both installations are heard until the operator has chosen."""
    devices.admitted[body.device].doubled = state.Doubled(body.runs, body.installations, at.index)


class DeviceSettled(EntryBody):
    """The operator said which of two installations goes on under a device's name."""

    kind: ClassVar[str] = "device.settled"
    device: DeviceId
    kept: BootId
    """A run of the one that goes on."""
    shut_out: BootId
    """A run of the other one; nothing of it is taken in any more."""

    def say(self, at: EntryContext) -> str:
        return (
            f"The operator let installation {self.kept} go on as device {self.device}; "
            f"{self.shut_out} is shut out."
        )


def _settle(devices: state.DevicesState, body: DeviceSettled, _at: EntryContext) -> None:
    """Let one installation go on, and shut the other one out."""
    device = devices.admitted[body.device]
    doubled = device.doubled
    assert doubled is not None
    names = dict(zip(doubled.runs, doubled.installations, strict=True))
    device.doubled = None
    device.boot, device.installation, device.formers = body.kept, names[body.kept], ()
    device.settled = {**device.settled, body.kept: True, body.shut_out: False}
    device.shut_out = (device.shut_out | {names[body.shut_out]}) - {names[body.kept]}


class DevicesSilent(EntryBody):
    """Nothing came of these devices for long that could be believed."""

    kind: ClassVar[str] = "devices.silent"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)
    seconds: int = Field(ge=0)
    """For so long at least."""

    def say(self, at: EntryContext) -> str:
        return (
            f"Nothing that can be believed came for {span(self.seconds * _SECOND_NS)} from "
            f"{', '.join(self.devices)}."
        )


def _fall_silent(devices: state.DevicesState, body: DevicesSilent, at: EntryContext) -> None:
    for device in body.devices:
        devices.admitted[device].silent_ns = at.time_ns - body.seconds * _SECOND_NS


class DevicesHeard(EntryBody):
    """These devices were silent, and are heard again."""

    kind: ClassVar[str] = "devices.heard"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)

    def say(self, at: EntryContext) -> str:
        return f"Heard again: {', '.join(self.devices)}."


def _hear(devices: state.DevicesState, body: DevicesHeard, _at: EntryContext) -> None:
    for device in body.devices:
        devices.admitted[device].silent_ns = None


class DeviceProblem(EntryBody):
    """A device reported something that its owner should mend."""

    kind: ClassVar[str] = "device.problem"
    about: str
    text: str

    def say(self, at: EntryContext) -> str:
        return f"Device {at.device} reports a problem with {self.about}: {self.text}"


_MOST_PROBLEMS = 50
"""Problems of one sender that are known at once; the oldest goes for a further one."""


def _tell_problem(devices: state.DevicesState, body: DeviceProblem, at: EntryContext) -> None:
    known = devices.problems.setdefault(at.maker, {})
    known.pop(body.about, None)  # what is said last lies last
    known[body.about] = state.ReportedProblem(at.index, at.time_ns, body.text)
    if len(known) > _MOST_PROBLEMS:
        del known[next(iter(known))]


def _move_times(devices: state.DevicesState, body: ClockCorrected, _at: EntryContext) -> None:
    """Move the times that are compared with later ones."""
    for device in devices.admitted.values():
        device.admitted_ns -= body.by_ns


def _notify_of_installations(body: DeviceDoubled | DeviceSettled) -> Notification:
    return Notification("installations", (body.device,))


DEVICES: LedgerTopic[state.DevicesState] = LedgerTopic(
    "devices",
    kinds=(
        Kind(
            DeviceAdmitted,
            _admit,
            lambda body: Notification("everything", (body.device,)),
        ),
        Kind(
            DeviceRetired,
            _retire,
            lambda body: Notification("retirement", (body.device,)),
        ),
        Kind(DeviceBorn, _begin_run, lambda _: Notification("born")),
        # Who belongs to a group of devices may have changed, and with it what they are to run.
        Kind(DeviceTagged, _tag, lambda body: Notification("released", body.devices)),
        Kind(
            DeviceDoubled,
            _freeze,
            _notify_of_installations,
            worth=TOLD,
            trouble=True,
        ),
        Kind(DeviceSettled, _settle, _notify_of_installations),
        Kind(DevicesSilent, _fall_silent, worth=TOLD, trouble=True),
        Kind(DevicesHeard, _hear, worth=TOLD),
        Kind(DeviceProblem, _tell_problem, worth=logging.WARNING, trouble=True),
    ),
    follows=(Follows(ClockCorrected, _move_times),),
)
