"""Reports of rollouts, in one form for the command line, JSON and pages.

Indices are those of entries in the ledger, so that every statement leads to what it stands on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, GateName
from fleetledger.coordinator.topics.rollouts.membership import DeviceStage
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome
from fleetledger.coordinator.topics.rollouts.state import RolloutStage
from fleetledger.runtime.command_report import Column, Report, ShownTable
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime
from fleetledger.schemas.rollouts import Mode

DEVICE_STAGES: tuple[tuple[DeviceStage, str], ...] = (
    ("settled", "Settled"),
    ("switched", "Run it, not settled yet"),
    ("shadowing", "Measured it in the shadow"),
    ("offered", "Offered, no answer yet"),
    ("unreached", "Away: the group goes on without them"),
    ("refused", "Refused by the self-test"),
    ("failed", "Failed"),
    ("rolled_back", "Went back"),
    ("waiting", "In a group that is not open"),
    ("pinned", "Pinned to another version"),
    ("excluded", "Not concerned"),
)
"""What becomes of a device, in the order in which it is told, with its words."""
GroupStage = Literal["ahead", "open", "passed", "stopped"]
Waits = Literal["start", "approval", "signature"]


def words_of(stage: str) -> str:
    """Return a stage as people read it: `rolled back`."""
    return stage.replace("_", " ")


class RolloutSummary(Strict):
    """A rollout in a list."""

    number: Annotated[int, Column("rollout")]
    version: Annotated[int, Column("model")]
    former: int | None
    """What it goes back to."""
    stage: Annotated[RolloutStage, Column("state", words_of)]
    sentence: Annotated[str, Column("how it stands", last=True)]
    """How it stands, for people."""
    group: Annotated[int | None, Column("group", of="progress")]
    """The newest that was opened."""
    groups: int
    devices: int
    """Of the groups that were opened."""
    ran: Annotated[int, Column("ran it")]
    """Devices that have ever run the version since it was planned."""
    failed: int
    unreached: int
    waits_for: Waits | None
    """What a person has to do before it goes on."""
    evidence: str
    """What decided, with its figures, where a gate has paused it; else empty."""
    since: IsoTime
    """When it came to stand as it does."""
    wait: Wait | None
    """What it waits for, until when, and what follows; None where it has ended."""
    automatic: bool
    """Planned because the fleet has learned the version."""
    planned: IsoTime
    planned_index: int
    newest_index: int
    """The entry that changed its stage last."""

    @property
    def progress(self) -> str:
        """How many groups were opened, of all."""
        return f"{self.group or 0} of {self.groups}"


class RolloutsReport(Report):
    """What `rollout list` shows."""

    lines_field: ClassVar[str | None] = "rollouts"
    titles: ClassVar[Mapping[str, str]] = {"rollouts": "Rollouts"}
    rollouts: tuple[RolloutSummary, ...]
    """Newest first."""


class RolloutAnswer(Report):
    """What verbs show that do something about a rollout."""

    said: str
    """What was done, in a sentence."""
    entries: tuple[int, ...]
    """Indices of the entries of the ledger that it made."""
    rollout: RolloutSummary
    """As it stands then."""

    def above(self) -> Iterator[str]:
        """Return what was done, and what the rollout waits for."""
        yield self.said
        if self.rollout.wait is not None:
            yield self.rollout.wait.sentence


class RolloutStep(Strict):
    """A step on the way of a rollout."""

    title: str
    text: str
    state: Literal["done", "now", "stands", "ahead"]
    """`stands`: a person has to look."""
    time: IsoTime | None = None
    index: int | None = None


class RolloutGroup(Strict):
    """A group, as far as it came."""

    number: int
    size: str
    """As it was planned: `1 device`, `5 %`."""
    stage: GroupStage
    mode: Mode | None
    """Its newest phase."""
    devices: int
    """That are in it, the groups before it not counted."""
    done: int
    """Of these, devices that reported all that was asked."""
    unreached: int
    opened: IsoTime | None = None
    opened_index: int | None = None
    approved_index: int | None = None
    measured_index: int | None = None
    """The newest verdict on it."""
    outcome: Outcome | None = None
    reason: str = ""


class EvidencePoint(Strict):
    """How strong evidence was after a report."""

    devices: int
    """Devices so far, in the order of reports."""
    log_e: float
    index: int
    """The entry with the report."""


class EvidenceCurve(Strict):
    """Evidence that the candidate is worse, as reports came; long ones are thinned."""

    name: str
    """Of the class; empty for all old classes together."""
    images: int
    only_active: int
    """Images that only the active model had right."""
    only_candidate: int
    log_e: float
    devices: int
    """That reported images of it."""
    points: tuple[EvidencePoint, ...]


class GateLine(GateFinding):
    """What a gate says of a group."""

    group: int
    short: str
    """The figures alone."""
    index: int | None = None
    """The entry with the verdict; None where it is made of what came so far."""


class GateRow(Strict):
    """A gate, with its limit in words."""

    gate: GateName
    title: str
    rule: str


class GroupEvidence(Strict):
    """Curves of a group: all reports up to its end."""

    group: int
    retention: EvidenceCurve | None
    classes: tuple[EvidenceCurve, ...]
    """The strongest first."""


class RolloutDevice(Strict):
    """What became of a device in a rollout."""

    device: Annotated[str, Column("device")]
    group: Annotated[int | None, Column("group")]
    """The first that it is in."""
    stage: Annotated[DeviceStage, Column("state", words_of)]
    reason: Annotated[str, Column("reason")] = ""
    since: IsoTime | None = None
    index: int | None = None
    """The entry that says so."""
    ran: bool
    """Whether it has ever run the version."""


class ExposurePoint(Strict):
    """From a time on, so many devices."""

    time: IsoTime
    devices: int
    group: int | None = None


class ExposureMark(Strict):
    """Something that happened to the whole rollout."""

    time: IsoTime
    text: str
    index: int


class Exposure(Strict):
    """How many devices have run the candidate, ever, and how many were allowed to."""

    ran: tuple[ExposurePoint, ...]
    allowed: tuple[ExposurePoint, ...]
    """The most that the groups which were open then have."""
    marks: tuple[ExposureMark, ...]
    until: IsoTime


class VerdictTold(Strict):
    """What decided over a rollout."""

    index: int
    """The entry with it."""
    group: int
    mode: Mode
    outcome: Outcome
    gate: GateName | None
    """The gate that did not pass; None where all did."""
    sentence: str
    """What was found, for people."""
    more: tuple[str, ...]
    """What else one wants to know of it."""
    heaviest: str | None
    """The device that counts most against the version."""
    entries: tuple[int, ...]
    """Reports that it was made of."""
    devices: int
    """That these are of."""
    equal: bool | None
    """Whether it came out the same again from these entries; None where nobody tried."""


class RolloutReport(Report):
    """What `rollout show` shows."""

    lines_field: ClassVar[str | None] = "gates"
    rollout: RolloutSummary
    lead: tuple[str, ...]
    """What the version brings, who runs it, what going back costs."""
    plan: RolloutPlan
    steps: tuple[RolloutStep, ...]
    verdict: VerdictTold | None
    groups: tuple[RolloutGroup, ...]
    rules: tuple[GateRow, ...]
    gates: tuple[GateLine, ...]
    """Of every group, gate by gate."""
    evidence: tuple[GroupEvidence, ...]
    exposure: Exposure
    counts: dict[DeviceStage, int]
    """Devices by what became of them."""
    devices: tuple[RolloutDevice, ...]
    """By group, then by name."""

    def above(self) -> Iterator[str]:
        """Return how it stands, and what decided."""
        yield self.rollout.sentence
        if self.rollout.wait is not None:
            yield self.rollout.wait.sentence
        yield from self.lead
        if self.verdict is not None:
            yield from ("", self.verdict.sentence, *self.verdict.more)
            reports = count_of(len(self.verdict.entries), "report")
            yield f"(entry {self.verdict.index}, made of {reports} of devices)"

    def tables(self) -> Iterator[ShownTable]:
        """Return each gate's finding in each group that was opened."""
        opened = [group.number for group in self.groups if group.stage != "ahead"]
        found = {(one.gate, one.group): f"{one.outcome}: {one.short}" for one in self.gates}
        rows: list[tuple[object, ...]] = [
            (rule.title, *(found.get((rule.gate, group), "") for group in opened))
            for rule in self.rules
        ]
        heads = ("gate", *(f"group {group}" for group in opened))
        yield ShownTable("Gates", heads, rows if opened else [])
        yield from super().tables()

    def below(self) -> Iterator[str]:
        """Return what became of devices, and how to make the verdicts again."""
        for stage, text in DEVICE_STAGES:
            if self.counts.get(stage):
                yield f"{self.counts[stage]:>6}  {text.lower()}"
        yield f"`fleetledger rollout verify {self.rollout.number}` makes the verdicts again"


class RolloutByDevices(RolloutReport):
    """The same, with a table of all devices."""

    titles: ClassVar[Mapping[str, str]] = {"devices": "Devices"}
