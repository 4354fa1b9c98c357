"""What is said of the fleet just now, in one form for the command line, JSON and pages.

Indices are those of entries in the ledger, so that every statement leads to what it stands on.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from fleetledger.coordinator.reading.rollouts.report import RolloutSummary
from fleetledger.coordinator.reading.waits import Wait
from fleetledger.coordinator.topics.releases.views import WaitingPush
from fleetledger.schemas.message import Strict
from fleetledger.schemas.shown import Report
from fleetledger.schemas.times import IsoTime, iso_time
from fleetledger.schemas.wire import WireRange
from fleetledger.transport.brokers.log_watch import PasswordMisuse

DeviceState = Literal[
    "online", "away", "unknown", "never seen", "revoked", "doubled", "too old", "too new"
]
"""`unknown` where no coordinator runs, so that nobody knows; `doubled` where two installations
have its name; `too old` and `too new` where it speaks no version of the wire that the coordinator
speaks."""
Urgency = Literal["now", "today"]


class RightCount(Strict):
    """How many of some held-out samples a model was right for."""

    correct: int
    """Of a model of pixels the sum over classes of intersections."""
    total: int
    """Of a model of pixels the sum over classes of unions."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.correct / self.total


class AccuracyThere(Strict):
    """How well a model does on a device, on its held-out samples, measured there."""

    version: int
    index: int
    """The entry with it."""
    all: RightCount | None
    old: RightCount | None
    """Of classes that came in a stage before the newest that the model knows."""
    new: RightCount | None
    """Of classes that came in that stage."""
    mean_iou: float | None = None
    """Of a model of pixels: mean over classes of intersection over union."""


class HealthNow(Strict):
    """How a device's machine is, as it said last; None where it cannot know."""

    time: IsoTime
    hottest_zone: str | None = None
    celsius: float | None = None
    """Of its hottest thermal zone."""
    provider: str | None = None
    power_mode: str | None = None
    throttled: int | None = None
    """How often the machine slowed itself down since it was switched on."""
    free_disk_bytes: int | None = None
    resident_bytes: int | None = None
    memory_limit_bytes: int | None = None
    inferences: int | None = None
    inference_p95_seconds: float | None = None


class Trouble(Strict):
    """Something about a device that somebody should mend."""

    about: str
    text: str
    index: int | None = None
    """The entry that says so; None where only the device says it, every minute."""
    since: IsoTime | None = None
    """Since when it is so, or when it was told; None where nobody knows."""
    hinders: bool = False
    """Whether it keeps who has it from giving or getting."""

    def __str__(self) -> str:
        since = "" if self.since is None else f"since {iso_time(self.since)}: "
        return f"{since}{self.about}: {self.text}"


class FleetDevice(Strict):
    """An admitted device."""

    name: str
    state: DeviceState
    last_seen: IsoTime | None = None
    """When anything of it came last, as far as is known."""
    online_since: IsoTime | None = None
    away_since: IsoTime | None = None
    absent_since: IsoTime | None = None
    """Since when it is away, or was admitted and never came, as far as is known."""
    silent_since: IsoTime | None = None
    """Since when nothing came that could be believed, where that is long."""
    admitted_index: int
    key: str = ""
    """Hash of its key, `invited` or `revoked`; empty where it has none."""
    tags: dict[str, str] = Field(default={})
    """What it is told apart by; the operator's word is over the owner's."""
    pinned: int | None = None
    """The version that it runs whatever is desired of others."""
    boot: str | None = None
    """Its newest run."""
    born_index: int | None = None
    provider: str | None = None
    """The ONNX Runtime execution provider that it runs models on."""
    agent_version: str | None = None
    """Version of the program that it runs; None before its first birth."""
    wire: WireRange | None = None
    """Versions of the wire that it speaks; None before its first birth."""
    refused_by: WireRange | None = None
    """Versions that the coordinator speaks, where the device speaks none of them."""
    outbox: int | None = None
    """Messages that wait there for a receipt."""
    desired_version: int | None = None
    active_version: int | None = None
    model_version: int | None = None
    """The version that it said something of last, which need not be the active one."""
    model_state: str | None = None
    """`active`, `failed` or `rolled_back`."""
    model_reason: str = ""
    model_index: int | None = None
    """The entry with these three."""
    accuracy: AccuracyThere | None = None
    health: HealthNow | None = None
    contributions: int
    """That are held."""
    samples: int
    """Of these."""
    problems: tuple[Trouble, ...] = ()
    hindered_since: IsoTime | None = None
    """Since when something keeps it from giving or getting, by its own words."""


class RetiredDevice(Strict):
    """A device that the operator took out of the fleet."""

    name: str
    since: IsoTime
    index: int
    """The entry that says so."""
    reason: str
    contributions: int
    """That are held still."""


class CoordinatorRun(Strict):
    """Whether a coordinator runs, and how it is."""

    running: bool
    since: IsoTime | None = None
    stopped_in_order: bool = False
    process: int | None = None
    """The one that has the ledger, although none has said lately that it runs."""
    last_written: IsoTime | None = None
    """When it said last that it runs."""
    version: str | None = None
    connected: bool = False
    """To the broker."""
    connection: str = ""
    """Why it is not, in words."""
    making_model: bool = False
    disconnected_since: IsoTime | None = None
    """Since when it is not."""
    problems: tuple[Trouble, ...] = ()
    """What is wrong with it now."""
    misused: tuple[PasswordMisuse, ...] = ()
    """Users of the broker whose password somebody else may have, of the last day."""

    @property
    def hindered(self) -> bool:
        """Whether something keeps it from its work."""
        return any(problem.hinders for problem in self.problems)


class LedgerNow(Strict):
    """How far the ledger is."""

    size: int
    """Number of entries."""
    last_commit: IsoTime | None = None


class RoundNow(Strict):
    """A round that is open."""

    number: int
    phase: str
    index: int
    opened: IsoTime
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    wait: Wait
    """What closes it."""


class StageNow(Strict):
    """The stage that is open."""

    number: int
    class_names: tuple[str, ...]
    index: int
    opened: IsoTime
    wait: Wait
    """What closes it."""
    opened_by: str
    answered: tuple[str, ...]
    """Devices that gave something for it, or have nothing."""
    missing: tuple[str, ...]
    """Devices that could answer and did not."""
    round: RoundNow | None = None


class CanaryNow(Strict):
    """A version that some devices were told to run, as the only ones."""

    version: int
    devices: tuple[str, ...]


class WaitingRelease(Strict):
    """A version that is desired and waits for a signature."""

    version: int
    index: int
    devices: tuple[str, ...] | None
    """None for all, or for a group of a rollout."""
    rollout: int | None = None
    """That offers it to a group."""
    group: int | None = None

    @classmethod
    def of(cls, push: WaitingPush) -> WaitingRelease:
        """Return what waits, as the ledger's tables have it."""
        return cls(
            version=push.version,
            index=push.action,
            devices=push.devices,
            rollout=push.rollout,
            group=push.group,
        )

    @property
    def whom(self) -> str:
        """For whom it waits, in words."""
        if self.rollout is not None:
            return f"group {self.group} of rollout {self.rollout}"
        return ", ".join(self.devices) if self.devices else "all devices"


class ModelsNow(Strict):
    """Which model goes out to whom, and what keeps one from it."""

    newest: int | None = None
    desired: int | None = None
    """What all devices are to run that nothing else is said of."""
    held: bool = False
    """New ones wait for the operator."""
    canaries: tuple[CanaryNow, ...] = ()
    waiting_releases: tuple[WaitingRelease, ...] = ()
    waits: tuple[Wait, ...] = ()
    """What keeps a version from going out by itself, and what contributions wait for."""


class StoppedRounds(Strict):
    """The open stage asks for no more rounds."""

    index: int
    reason: str


class Need(Strict):
    """Something that needs a person."""

    key: str
    """Names it while its sentence, figures and devices change: `rollout:7:paused:48191`."""
    urgency: Urgency
    sentence: str
    more: str = ""
    """The figures that it stands on, in sentences."""
    since: IsoTime | None = None
    """Since when it is so, as far as is known."""
    devices: tuple[str, ...] = ()
    index: int | None = None
    """The entry that it stands on."""
    command: str | None = None
    """What mends it, or shows more."""


class FleetNow(Report):
    """The fleet at one time."""

    lines_field: ClassVar[str | None] = "devices"

    fleet: str
    """Its name; empty where it is not known."""
    trial: bool = False
    """Whether the fleet is for trying, and needs no keys."""
    learning: bool = True
    """Whether it learns; where it does not, it only runs models."""
    time: IsoTime
    coordinator: CoordinatorRun
    ledger: LedgerNow
    needs: tuple[Need, ...]
    """What needs a person, the most urgent first."""
    devices: tuple[FleetDevice, ...]
    """By name."""
    retired: tuple[RetiredDevice, ...] = ()
    """Devices that were taken out, by name."""
    stage: StageNow | None = None
    rollouts: tuple[RolloutSummary, ...] = ()
    """Those that something is still to come of, newest first, each with what it waits for."""
    models: ModelsNow
    stopped_rounds: StoppedRounds | None = None
