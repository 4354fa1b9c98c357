"""Answers about the fleet as it is now, in one form for the command line, JSON and pages.

Indices are those of entries in the ledger, so that every statement leads to what it stands on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.reports.rollouts.report import RolloutSummary
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.devices.choice import describe_tags
from fleetledger.coordinator.topics.models.queries import HELD
from fleetledger.coordinator.topics.releases.views import WaitingRelease
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.count_words import agree
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime, clock_time, iso_time
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.wire import WireRange
from fleetledger.transport.access import PasswordMisuse

DeviceState = Literal[
    "online", "away", "unknown", "never seen", "revoked", "doubled", "too old", "too new"
]
"""`unknown` where no coordinator runs, so that nobody knows; `doubled` where two installations
have its name; `too old` and `too new` where it speaks no version of the wire that the coordinator
speaks."""
Urgency = Literal["now", "today"]
TRIAL = (
    "for trying: devices need no keys, so whoever has a password of the broker speaks for its "
    "device"
)


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

    def __str__(self) -> str:
        return f"{100 * self.share:.1f}"


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

    @property
    def overall(self) -> object:
        """All of it as a table has it."""
        return self.all if self.mean_iou is None else f"{100 * self.mean_iou:.1f} mIoU"


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

    name: Annotated[str, Column("device")]
    state: Annotated[DeviceState, Column("state")]
    last_seen: Annotated[IsoTime | None, Column("last seen", of="seen")] = None
    """When anything of it came last, as far as is known."""
    online_since: IsoTime | None = None
    away_since: IsoTime | None = None
    absent_since: IsoTime | None = None
    """Since when it is away, or was admitted and never came, as far as is known."""
    silent_since: IsoTime | None = None
    """Since when nothing came that could be believed, where that is long."""
    admitted_index: int
    key: Annotated[str, Column("key", last=True)] = ""
    """Hash of its key, `invited` or `revoked`; empty where it has none."""
    tags: Annotated[
        dict[str, str],
        Column("tags", describe_tags, last=True, sparse=True),
    ] = Field(default={})
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
    active_version: Annotated[int | None, Column("model", of="model")] = None
    model_version: int | None = None
    """The version that it said something of last, which need not be the active one."""
    model_state: str | None = None
    """`active`, `failed` or `rolled_back`."""
    model_reason: str = ""
    model_index: int | None = None
    """The entry with these three."""
    accuracy: Annotated[
        AccuracyThere | None,
        Column("right %", attrgetter("overall")),
        Column("old %", attrgetter("old"), only="learning"),
        Column("new %", attrgetter("new"), only="learning"),
    ] = None
    health: HealthNow | None = None
    contributions: int
    """That are held."""
    samples: Annotated[int, Column("samples", only="learning")]
    """Of these."""
    epsilon: Annotated[float | None, Column("epsilon", "{:.2f}".format, sparse=True)] = None
    """Epsilon that its contributions have spent of the fleet's differential privacy; None where
    they have no noise."""
    problems: Annotated[tuple[Trouble, ...], Column("trouble", of="trouble", last=True)] = ()
    hindered_since: IsoTime | None = None
    """Since when something keeps it from giving or getting, by its own words."""

    @property
    def model(self) -> str | None:
        """The model that it runs, and what is to become of it."""
        if self.model_state in {"failed", "rolled_back"}:
            state = self.model_state.replace("_", " ")
            return f"{self.active_version or 'none'}, {self.model_version} {state}"
        if self.active_version is None:
            return None
        pinned = ", pinned" if self.pinned is not None else ""
        if self.desired_version not in {None, self.active_version}:
            return f"{self.active_version}, to be {self.desired_version}{pinned}"
        return f"{self.active_version}{pinned}"

    def seen(self, fleet: FleetNow) -> str | None:
        """Return how long ago anything of it came."""
        if self.last_seen is None:
            return None
        seconds = (fleet.time - self.last_seen) // 10**9
        return f"{max(seconds, 0)} s ago" if seconds < 60 else f"{span(seconds * 10**9)} ago"

    @property
    def trouble(self) -> str | None:
        """The first thing that somebody should mend, and how many more there are."""
        told = [f"silent since {iso_time(self.silent_since)}"] if self.silent_since else []
        told += map(str, self.problems)
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        return told[0] + more if told else None


class RetiredDevice(Strict):
    """A device that the operator took out of the fleet."""

    name: Annotated[str, Column("device")]
    since: Annotated[IsoTime, Column("since", iso_time)]
    index: int
    """The entry that says so."""
    reason: Annotated[str, Column("reason", last=True)]
    contributions: Annotated[int, Column("contributions")]
    """That are held still."""


_TOLD_BYTES = 2**20
"""Of files, below which the line about the coordinator says nothing of them."""


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
    files_by_http: int = 0
    """Bytes of files that devices have had by HTTP since it began."""
    files_by_broker: int = 0
    """Bytes of files and requests that it has sent by the broker's blocks since it began."""

    @property
    def hindered(self) -> bool:
        """Whether something keeps it from its work."""
        return any(problem.hinders for problem in self.problems)

    def __str__(self) -> str:
        if not self.running:
            return "NO COORDINATOR RUNS"
        since = "" if self.since is None else f" since {iso_time(self.since)}"
        sent = ""
        if self.files_by_http + self.files_by_broker >= _TOLD_BYTES:
            sent = (
                f", sent {self.files_by_http / 2**20:.1f} MiB of files by HTTP and "
                f"{self.files_by_broker / 2**20:.1f} by the broker"
            )
        model = ", makes a model" if self.making_model else ""
        return f"coordinator runs{since}{model}{sent}"


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
    """Devices that have not answered; of an asynchronous round all that train."""
    buffer: int | None = Field(default=None, exclude_if=is_absent)
    """Answers after which an asynchronous round closes."""
    wait: Wait
    """What closes it."""

    def lines(self) -> Iterator[str]:
        """Return it in sentences."""
        if self.buffer is not None:
            train = f"{count_of(len(self.missing))} {agree(len(self.missing), 'trains', 'train')}"
            yield (
                f"round {self.number}: {len(self.answered)} of {count_of(self.buffer, 'answer')} "
                f"came; {train}"
            )
            yield f"  {self.wait.sentence}"
            return
        late = f"; missing: {some(self.missing)}" if self.missing else ""
        yield (
            f"round {self.number}: {len(self.answered)} of {count_of(len(self.asked))} "
            f"answered{late}"
        )
        yield f"  {self.wait.sentence}"


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
    cohorts: tuple[str, ...] = Field(default=(), exclude_if=is_absent)
    """What open masked cohorts wait for, a sentence each."""
    round: RoundNow | None = None

    def lines(self) -> Iterator[str]:
        """Return it in sentences."""
        total = len(self.answered) + len(self.missing)
        missing = f"; missing: {some(self.missing)}" if self.missing else ""
        yield (
            f"stage {self.number} is open for {', '.join(self.class_names)} since "
            f"{iso_time(self.opened)}: {len(self.answered)} of {count_of(total)} answered{missing}"
        )
        yield f"  {self.wait.sentence}"
        yield from (f"  {sentence}" for sentence in self.cohorts)
        if self.round is not None:
            yield from self.round.lines()


class CanaryNow(Strict):
    """A version that some devices were told to run, as the only ones."""

    version: int
    devices: tuple[str, ...]


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

    def lines(self) -> Iterator[str]:
        """Return it in sentences."""
        if self.newest is not None:
            desired = "none" if self.desired is None else f"version {self.desired}"
            yield f"newest model: version {self.newest}; all devices are to run: {desired}"
        yield from (f"  {wait.sentence}" for wait in self.waits)
        for canary in self.canaries:
            yield f"model {canary.version} is tried on {some(canary.devices)}"
        if self.held:
            yield HELD


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

    def lines(self, now_ns: int) -> Iterator[str]:
        """Return it in sentences."""
        told = [] if self.since is None else [f"since {clock_time(self.since, now_ns)}"]
        told += [] if self.index is None else [f"entry {self.index}"]
        entry = f" ({', '.join(told)})" if told else ""
        yield f"{'NOW' if self.urgency == 'now' else 'today':<6} {self.sentence}{entry}"
        if self.more:
            yield f"       {self.more}"
        if self.command:
            yield f"       -> {self.command}"


class FleetNow(Report):
    """The fleet at one time."""

    lines_field: ClassVar[str | None] = "devices"
    titles: ClassVar[Mapping[str, str]] = {"devices": "Devices"}
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

    def above(self) -> Iterator[str]:
        """Return what the fleet is, and what needs a person."""
        there = sum(device.state == "online" for device in self.devices)
        of_all = f"{there} of {count_of(len(self.devices))} online"
        count = of_all if self.coordinator.running else ""
        name = f"fleet {self.fleet}" if self.fleet else "fleet"
        yield ", ".join(filter(None, (name, count, str(self.coordinator))))
        if self.trial:
            yield TRIAL
        commit = self.ledger.last_commit
        when = "" if commit is None else f", the last at {iso_time(commit)}"
        yield f"ledger: {count_of(self.ledger.size, 'entry', 'entries')}{when}"
        for need in self.needs:
            yield from need.lines(self.time)
        if not self.needs:
            yield "Nothing needs you."

    def below(self) -> Iterator[str]:
        """Return what is under way, and which models go out."""
        if self.retired:
            yield f"retired: {some(device.name for device in self.retired)}"
        if self.stage is not None:
            yield from self.stage.lines()
        for rollout in self.rollouts:
            yield rollout.sentence
            if rollout.wait is not None:
                yield f"  {rollout.wait.sentence}"
        yield from self.models.lines()
        if self.stopped_rounds is not None:
            yield f"rounds have stopped (entry {self.stopped_rounds.index})"
