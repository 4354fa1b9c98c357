"""What is known of the fleet just now; nothing decides by it, and it may be lost."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from fleetledger.runtime.problems import DatedProblem
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.health import DeviceHealth, HealthProblem
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.access import PasswordMisuse

Labels = dict[str, str]
_SECOND_NS = 1_000_000_000


class StageWait(Strict):
    """Answers that the open stage waits for, and when it closes without them."""

    answered: int
    expected: int
    """Devices that may answer."""
    needed: int
    """Answers that are enough."""
    quiet_seconds: float
    """Time without a further answer, once there are enough."""
    quiet_ns: int | None = None
    """When that is over; None while there are too few."""
    latest_ns: int
    """When it closes with whatever came."""
    away_seconds: float | None = None
    """Time after which nobody waits for a device that is away; None where the stage does."""

    def shifted(self, by_ns: int) -> StageWait:
        """Return the same by another calendar."""
        quiet_ns = None if self.quiet_ns is None else self.quiet_ns + by_ns
        return self.model_copy(update={"quiet_ns": quiet_ns, "latest_ns": self.latest_ns + by_ns})


class CoordinatorNow(Strict):
    """The coordinator that serves, or that served last."""

    fleet: str
    version: str
    """Of fleetledger."""
    pid: int
    started_ns: int
    written_ns: int
    """When this was written, in nanoseconds since 1970; it is every two seconds."""
    stopped: bool = False
    """It ended in order."""
    connected: bool = False
    """To the broker."""
    connection: str = ""
    """Why it is not connected, in words."""
    ledger_size: int = 0
    committed_ns: int | None = None
    """When the newest group of entries was committed."""
    making_model: bool = False
    stage: StageWait | None = None
    """What closes the open stage, by this machine's calendar; None where none is open, or where
    rounds decide it."""
    next_model_ns: int | None = None
    """When the next model is made of what came since the newest, by this machine's calendar; None
    where nothing came."""
    waiting_version: int | None = None
    """The version that goes out by itself once the open rollout ends."""
    disconnected_ns: int | None = None
    """Since when it is not connected to the broker."""
    problems: tuple[DatedProblem, ...] = ()
    """What is wrong with it now, such as a full disk, with its dates."""
    misused: tuple[PasswordMisuse, ...] = ()
    """Users of the broker whose password somebody else may have."""
    files_by_http: int = 0
    """Bytes of files that devices have had by HTTP since it began."""
    files_by_broker: int = 0
    """Bytes that the exchange of blocks has sent since it began."""

    @property
    def hindered(self) -> DatedProblem | None:
        """The first of what keeps it from its work; None where nothing does."""
        return next((problem for problem in self.problems if problem.hinders), None)


class DeviceNow(Strict):
    """A device as its births, deaths, heartbeats and its words on its health have it."""

    device: DeviceId
    online: bool = False
    boot: BootId | None = None
    """The run that is connected."""
    since_ns: int | None = None
    """Since when it is online, or away; None where it was not seen since the coordinator began."""
    heard_ns: int | None = None
    """When anything of it came last that was believed."""
    outbox: int | None = None
    """Messages that wait on the device for a receipt."""
    waiting_images: int | None = None
    resident_bytes: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    health: DeviceHealth | None = None
    health_ns: int | None = None
    """When `health` came."""

    @property
    def told(self) -> tuple[tuple[HealthProblem, int | None], ...]:
        """What keeps it from its work, or will, by its own words, each with when it began.

        Nobody knows it of a device that is away.
        """
        if not self.online or self.health is None or self.health_ns is None:
            return ()
        told_ns = self.health_ns
        return tuple(
            (one, None if one.seconds is None else told_ns - one.seconds * _SECOND_NS)
            for one in self.health.problems
        )

    @property
    def hindered_since_ns(self) -> int | None:
        """Since when the oldest of what keeps it from its work is so."""
        began = (began for one, began in self.told if one.hinders and began is not None)
        return min(began, default=None)


class CounterNow(Strict):
    """A count that only grows while the coordinator runs."""

    name: str
    """As Prometheus has it, without `fleetledger_` before it and `_total` behind it."""
    labels: Labels = Field(default_factory=dict)
    value: float


class HistogramNow(Strict):
    """How often something took how long."""

    name: str
    """As Prometheus has it, without `fleetledger_` before it."""
    labels: Labels = Field(default_factory=dict)
    bounds: tuple[float, ...]
    """Upper bounds of the buckets, growing; a last bucket without bound follows."""
    counts: tuple[int, ...]
    """One for each bucket, the last one included; not added up."""
    total: float
    """Sum of all that was observed."""


class LiveSnapshot(Strict):
    """Everything that is known just now."""

    coordinator: CoordinatorNow
    devices: dict[DeviceId, DeviceNow] = Field(default_factory=dict)
    counters: tuple[CounterNow, ...] = ()
    histograms: tuple[HistogramNow, ...] = ()


class HealthPoint(Strict):
    """A device's health at a time, of the last day."""

    time_ns: int
    celsius: float | None = None
    """Of its hottest thermal zone."""
    resident_bytes: int | None = None
    free_disk_bytes: int | None = None
    inference_p95_seconds: float | None = None


class FleetHeat(Strict):
    """Temperatures of all devices that tell any, in ten minutes of the last day."""

    time_ns: int
    devices: int
    mean: float
    """Of the devices' hottest zones, in degrees Celsius."""
    hottest: float
    device: str
    """The one that was hottest."""


class TrafficPoint(Strict):
    """What passed in ten minutes of the last day."""

    time_ns: int
    """When they began."""
    bytes_in: int
    bytes_out: int


class PresenceChange(NamedTuple):
    """A device came or went."""

    device: str
    """Empty for the coordinator, which knows who is there while it is connected."""
    time_ns: int
    here: bool


LATE_SECONDS = 10.0
"""A coordinator that has not written for so long does not serve, or is not well."""


def serves(now: CoordinatorNow, time_ns: int) -> bool:
    """Whether a coordinator has written lately and has not ended in order."""
    return not now.stopped and time_ns - now.written_ns < LATE_SECONDS * 1_000_000_000
