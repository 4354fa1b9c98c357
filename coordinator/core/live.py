"""What the coordinator knows only while it runs; none of it decides the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from fleetledger.coordinator.topics.devices.runs import RunWatch
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

NANOSECONDS = 1_000_000_000
Pending = tuple[PartKey, int]
_BIRTHS = 1024
"""Births of this coordinator that are remembered."""
_ANSWERED_BIRTHS = 16
NOTHING_PENDING: frozenset[Pending] = frozenset()
"""The one that is empty: each of its own would take 216 bytes."""
_NOTHING_WAITS: Mapping[ClassName, int] = MappingProxyType({})
_FORGERIES_PER_MINUTE = 6
"""How often a device is told of messages in its name that were not believed."""


class Beat(NamedTuple):
    """What a device's last heartbeat counted; a message has ten times the size."""

    outbox: int
    waiting_images: int
    resident_bytes: int
    bytes_up: int
    bytes_down: int

    @classmethod
    def of(cls, heartbeat: Heartbeat) -> Beat:
        """Return the counts of a heartbeat."""
        return cls(
            heartbeat.outbox_length,
            heartbeat.waiting_images,
            heartbeat.resident_bytes,
            heartbeat.bytes_up,
            heartbeat.bytes_down,
        )


@dataclass(slots=True)
class LiveDevice:
    """A device as it is now; a hundred thousand of them fit into little memory."""

    boot: BootId | None = None
    """The boot that is connected; None when the device is away."""
    away_ns: int | None = None
    """When it went away; None while it is here, and where it was not here yet."""
    since_size: int = 0
    """Entries of the ledger when it came, for a device that is here."""
    born: tuple[BootId, ...] = ()
    """Boots whose births were answered since the coordinator started, newest last."""
    runs: RunWatch = field(default_factory=RunWatch)
    """Which runs have spoken under this name, and which of them were proven to be alive when."""
    beat: Beat | None = None
    heard_ns: int | None = None
    """When it last said something that was believed, and that nobody can have said again."""
    health: bytes | None = None
    """What it said last of its machine, as JSON of a `DeviceHealth`."""
    health_ns: int | None = None
    """When it said that."""
    seen_size: int | None = None
    """Entries of the ledger up to which its history was proven to this device."""
    waiting_classes: Mapping[ClassName, int] = field(default_factory=lambda: _NOTHING_WAITS)
    pending: frozenset[Pending] = NOTHING_PENDING
    """Parts whose payload is on its way into the store."""
    refusals_ns: tuple[int, ...] = ()
    """When this device was refused something during the last minute."""
    told_of_day: int = -1
    """The day on which the operator was told that it adds more than it may."""
    forgeries_ns: tuple[int, ...] = ()
    """When it was told during the last minute that a message in its name was not believed."""

    def answered(self, boot: BootId) -> None:
        """Note that a birth was answered; of many runs the newest are remembered."""
        if boot not in self.born:
            self.born = (*self.born[1 - _ANSWERED_BIRTHS :], boot)

    def here(self, boot: BootId, size: int) -> None:
        """Note that a boot is connected, while the ledger has so many entries."""
        self.away_ns = None
        if self.boot != boot:
            self.boot, self.since_size = boot, size

    def leave(self, now_ns: int) -> None:
        """Note that the device is away."""
        if self.boot is not None:
            self.boot, self.away_ns = None, now_ns

    def set_back(self, by_ns: int) -> None:
        """Move what was noted with the times of entries, as they are set back."""
        if self.heard_ns is not None:
            self.heard_ns -= by_ns
        if self.health_ns is not None:
            self.health_ns -= by_ns
        if self.away_ns is not None:
            self.away_ns -= by_ns
        self.runs.set_back(by_ns)
        self.refusals_ns = tuple(time_ns - by_ns for time_ns in self.refusals_ns)
        self.forgeries_ns = tuple(time_ns - by_ns for time_ns in self.forgeries_ns)

    def may_refuse(self, now_ns: int, per_minute: int) -> bool:
        """Whether one more refusal may be sent; notes it if so."""
        recent = _last_minute(self.refusals_ns, now_ns)
        self.refusals_ns = (*recent, now_ns) if len(recent) < per_minute else recent
        return len(recent) < per_minute

    def may_tell_forgery(self, now_ns: int) -> bool:
        """Whether it may be told of one more message that was not believed; notes it if so."""
        recent = _last_minute(self.forgeries_ns, now_ns)
        self.forgeries_ns = (*recent, now_ns) if len(recent) < _FORGERIES_PER_MINUTE else recent
        return len(recent) < _FORGERIES_PER_MINUTE


def _last_minute(times_ns: tuple[int, ...], now_ns: int) -> tuple[int, ...]:
    if not times_ns or now_ns - times_ns[0] <= 60 * NANOSECONDS:
        return times_ns
    return tuple(time_ns for time_ns in times_ns if now_ns - time_ns <= 60 * NANOSECONDS)


@dataclass
class Live:
    """Devices present, and whether a worker is making a model."""

    devices: dict[DeviceId, LiveDevice] = field(default_factory=dict)
    touched: set[DeviceId] = field(default_factory=set)
    """Devices of which something may have changed since it was last written down."""
    untold: dict[tuple[Literal["assignment", "desired"], DeviceId], None] = field(
        default_factory=dict
    )
    """Who is to be told what by and by, in order."""
    making_model: bool = False
    summing: set[int] = field(default_factory=set)
    """Cohorts off whose sums a worker takes the masks."""
    beside: str = ""
    """Which other coordinators run for this fleet, in words; empty while there is none."""
    started_ns: int | None = None
    """When the first input came since the coordinator started."""
    since_ns: int | None = None
    """When the rules of rounds first looked."""
    last_model_ns: int | None = None
    """When the last making of a model began."""
    solve_again: bool = False
    """Whether parts were judged since, so that a head is to be solved without a pause."""
    calendar_ns: int | None = None
    """What this machine's calendar says, where that may be another time than entries have."""
    listening_ns: int | None = None
    """Since when devices are listened to."""
    looked_ns: int | None = None
    """When it was last seen who is silent."""
    beat_ns: int | None = None
    """When devices were last told that the coordinator is there."""
    refused: dict[int, dict[DeviceId, str]] = field(default_factory=dict)
    """By open round: devices of its cohort whose answers were refused, and why."""
    announced: dict[Digest, int] = field(default_factory=dict)
    """Births of this coordinator, numbered: who refers to one was alive after it."""
    announcements: int = 0

    def announce(self, birth: Digest) -> None:
        """Note a birth that is being published; of the oldest nobody speaks any more."""
        self.announced[birth] = self.announcements
        self.announcements += 1
        if len(self.announced) > _BIRTHS:
            del self.announced[next(iter(self.announced))]

    def device(self, device: DeviceId) -> LiveDevice:
        """Return what is known of a device now, to be changed; beginning with nothing."""
        self.touched.add(device)
        known = self.devices.get(device)
        return self.devices.setdefault(device, LiveDevice()) if known is None else known

    def seen(self, device: DeviceId) -> LiveDevice:
        """Return what is known of a device now, to be read."""
        return self.devices.get(device) or _NEVER_SEEN

    def calendar(self, now_ns: int) -> int:
        """Return what this machine's calendar says.

        Expiries that others read, and tokens, are judged by it alone: a time that an entry had
        once is no reason to believe it, and a calendar that is set right is right at once.
        """
        return now_ns if self.calendar_ns is None else self.calendar_ns

    def set_back(self, by_ns: int) -> None:
        """Move what was noted with the times of entries, as they are set back."""
        for name in ("since_ns", "last_model_ns", "listening_ns", "looked_ns", "beat_ns"):
            noted = getattr(self, name)
            if noted is not None:
                setattr(self, name, noted - by_ns)
        for device in self.devices.values():
            device.set_back(by_ns)
        self.touched.update(self.devices)


_NEVER_SEEN = LiveDevice()
