"""Rollouts for whoever asks: tables for SQL, and what happened in one, out of its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, Rule
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.entries import (
    GroupOpened,
    ModelCompared,
    RolloutAborted,
    RolloutApproved,
    RolloutFinished,
    RolloutMeasured,
    RolloutPaused,
    RolloutPlanned,
    RolloutResumed,
    RolloutRolledBack,
    RolloutStarted,
    RolloutUnreached,
)
from fleetledger.coordinator.topics.rollouts.scope import GateKey
from fleetledger.coordinator.topics.rollouts.verifying import StoredReport
from fleetledger.schemas.rollouts import Mode

RolloutStage = Literal[
    "planned",
    "approved",
    "running",
    "soaking",
    "paused",
    "rolled_back",
    "finished",
    "aborted",
    "superseded",
]
DeviceStage = Literal[
    "waiting",
    "offered",
    "shadowing",
    "switched",
    "settled",
    "refused",
    "failed",
    "rolled_back",
    "unreached",
    "pinned",
    "excluded",
]


def _row_planned(db: Database, entry: Entry) -> None:
    body = entry.body
    db.table("rollout").insert(
        {
            "number": body["rollout"],
            "version": body["version"],
            "former": body["former"],
            "automatic": int(body["automatic"]),
            "planned_index": entry.index,
            "planned_ns": entry.time_ns,
            "state": "planned",
            "newest_index": entry.index,
            "reason": "",
        }
    )


def _row_turns(state: str) -> Rule:
    def rule(db: Database, entry: Entry) -> None:
        change = {
            "state": state,
            "newest_index": entry.index,
            "reason": entry.body.get("reason", ""),
        }
        db.table("rollout").update(entry.body["rollout"], change)

    return rule


def _row_approved(db: Database, entry: Entry) -> None:
    db.execute(
        "UPDATE rollout SET state = 'approved', newest_index = ?"
        " WHERE number = ? AND state = 'planned'",
        [entry.index, entry.body["rollout"]],
    )


def _row_opened(db: Database, entry: Entry) -> None:
    change = {
        "state": "running",
        "group_number": entry.body["group"],
        "mode": entry.body["mode"],
        "newest_index": entry.index,
    }
    db.table("rollout").update(entry.body["rollout"], change)


def _row_measured(db: Database, entry: Entry) -> None:
    if entry.body["outcome"] == "pass":
        _row_turns("soaking")(db, entry)


def _row_aborted(db: Database, entry: Entry) -> None:
    _row_turns("superseded" if entry.body.get("by") else "aborted")(db, entry)


ROLLOUT = Projection(
    "rollout",
    {
        "number": int,
        "version": int,
        "former": int,
        "automatic": int,
        "planned_index": int,
        "planned_ns": int,
        "state": str,
        "group_number": int,
        "mode": str,
        "newest_index": int,
        "reason": str,
    },
    ("number",),
    {
        RolloutPlanned.kind: _row_planned,
        RolloutApproved.kind: _row_approved,
        RolloutStarted.kind: _row_turns("running"),
        GroupOpened.kind: _row_opened,
        RolloutMeasured.kind: _row_measured,
        RolloutPaused.kind: _row_turns("paused"),
        RolloutResumed.kind: _row_turns("running"),
        RolloutRolledBack.kind: _row_turns("rolled_back"),
        RolloutFinished.kind: _row_turns("finished"),
        RolloutAborted.kind: _row_aborted,
    },
)


def _row_belongs(rollout: Callable[[Entry], int]) -> Rule:
    def rule(db: Database, entry: Entry) -> None:
        db.table("rollout_entry").insert({"idx": entry.index, "rollout": rollout(entry)})

    return rule


def _row_status(db: Database, entry: Entry) -> None:
    """Take in what a device says of the version of a rollout, or of what that went back to."""
    db.execute(
        "INSERT INTO rollout_entry (idx, rollout) SELECT ?1, number FROM rollout"
        " WHERE version = ?2 OR (former = ?2 AND state = 'rolled_back')"
        " ORDER BY number DESC LIMIT 1",
        [entry.index, entry.body["version"]],
    )


_NAMED = _row_belongs(lambda entry: int(entry.body["rollout"]))
ROLLOUT_ENTRY = Projection(
    "rollout_entry",
    {"idx": int, "rollout": int},
    ("idx",),
    {
        **dict.fromkeys((*ROLLOUT.rules, RolloutUnreached.kind), _NAMED),
        ModelCompared.kind: _row_belongs(lambda entry: int(entry.body["comparison"]["rollout"])),
        DeviceModelStatus.kind: _row_status,
    },
    indexes=(("rollout", "idx"),),
)
"""Which entries a rollout is made of: its own, comparisons, and what devices say of its version."""


@dataclass(frozen=True)
class PhaseOpened:
    """A group was let go, to measure the candidate or to run it."""

    mode: Mode
    below: int
    index: int
    time_ns: int


@dataclass(frozen=True)
class MeasuredThen:
    """A verdict, and when it was written."""

    body: RolloutMeasured
    index: int
    time_ns: int


@dataclass(frozen=True)
class ComparedThen:
    """A report of a device, as plain JSON."""

    device: str
    index: int
    time_ns: int
    body: Mapping[str, Any]

    @property
    def group(self) -> int:
        """The group that it was asked for."""
        return int(self.body["group"])

    @property
    def shadow(self) -> bool:
        """Whether it was measured before the switch."""
        return bool(self.body["mode"] == "shadow")


@dataclass
class GroupStory:
    """What happened to a group."""

    number: int
    phases: list[PhaseOpened] = field(default_factory=list)
    approved: tuple[int, int, str] | None = None
    """Entry, time and actor of the approval."""
    measured: list[MeasuredThen] = field(default_factory=list)
    unreached: set[str] = field(default_factory=set)


@dataclass
class DeviceStory:
    """What a device said."""

    stage: DeviceStage | None = None
    """None until it said something."""
    reason: str = ""
    index: int | None = None
    time_ns: int | None = None
    first_ran_ns: int | None = None
    shadowed: bool = False
    compared: bool = False
    """After the switch."""

    def became(self, stage: DeviceStage, entry: Entry, reason: str = "") -> None:
        """Take in what it says of itself."""
        self.stage, self.reason, self.index, self.time_ns = (
            stage,
            reason,
            entry.index,
            entry.time_ns,
        )


@dataclass(frozen=True)
class Turn:
    """Something that changed the stage of the rollout."""

    stage: RolloutStage
    index: int
    time_ns: int
    actor: str
    reason: str = ""


@dataclass(frozen=True)
class Pardon:
    """A person let it go on in spite of gates that failed, or were inconclusive."""

    index: int
    failed: frozenset[GateKey]
    unsure: frozenset[GateKey]


@dataclass
class RolloutStory:
    """Everything that the entries say of one rollout."""

    planned: RolloutPlanned
    turns: list[Turn]
    groups: dict[int, GroupStory] = field(default_factory=dict)
    devices: dict[str, DeviceStory] = field(default_factory=dict)
    reports: list[ComparedThen] = field(default_factory=list)
    heard: dict[int, StoredReport] = field(default_factory=dict)
    """What a verdict may be made of, by entry."""
    pardons: list[Pardon] = field(default_factory=list)
    said_by: dict[int, str] = field(default_factory=dict)
    """Every entry that a device made to the device."""
    started: tuple[int, int, str] | None = None
    begins_ns: int | None = None
    """When it begins, where its start said so."""
    superseded_by: int | None = None
    back_to: int | None = None
    last_ns: int = 0

    @property
    def stage(self) -> RolloutStage:
        """How it stands."""
        return self.turns[-1].stage

    @property
    def opened(self) -> list[GroupStory]:
        """The groups that were let go, in their order."""
        return [self.groups[number] for number in sorted(self.groups) if self.groups[number].phases]

    @property
    def newest(self) -> GroupStory | None:
        """The group that was opened last."""
        return self.opened[-1] if self.opened else None

    @property
    def verdict(self) -> MeasuredThen | None:
        """The verdict that was written last."""
        found = [one for group in self.groups.values() for one in group.measured]
        return max(found, key=lambda one: one.index, default=None)

    def forgiven_before(self, index: int) -> tuple[frozenset[GateKey], frozenset[GateKey]]:
        """Return what a person had let it go on in spite of, failing and inconclusive."""
        before = [one for one in self.pardons if one.index < index]
        opened = [phase.index for group in self.opened for phase in group.phases]
        since = max((one for one in opened if one < index), default=0)
        failed = frozenset(key for one in before for key in one.failed)
        unsure = (one.unsure for one in before if one.index > since)
        return failed, frozenset(key for keys in unsure for key in keys)

    def group(self, number: int) -> GroupStory:
        """Return a group, to change."""
        return self.groups.setdefault(number, GroupStory(number))

    def device(self, name: str) -> DeviceStory:
        """Return a device, to change."""
        return self.devices.setdefault(name, DeviceStory())


def told(entries: Iterable[Entry]) -> RolloutStory:
    """Return what entries of one rollout say; the first one plans it."""
    story: RolloutStory | None = None
    for entry in entries:
        if story is None:
            planned = RolloutPlanned.model_validate(entry.body)
            first = Turn("planned", entry.index, entry.time_ns, entry.actor)
            story = RolloutStory(planned, [first], last_ns=entry.time_ns)
        else:
            _take(story, entry)
            story.last_ns = entry.time_ns
    assert story is not None, "a rollout begins with its plan"
    return story


def _take(story: RolloutStory, entry: Entry) -> None:
    if entry.kind in _TURNS:
        _turn(story, _TURNS[entry.kind], entry)
    if entry.device is not None:
        story.said_by[entry.index] = str(entry.device)
    if entry.kind in _CHANGES:
        _CHANGES[entry.kind](story, entry)


def _approved(story: RolloutStory, entry: Entry) -> None:
    story.group(entry.body["group"]).approved = (entry.index, entry.time_ns, entry.actor)
    if story.stage == "planned":
        _turn(story, "approved", entry)


def _started(story: RolloutStory, entry: Entry) -> None:
    story.started = (entry.index, entry.time_ns, entry.actor)
    story.begins_ns = entry.body.get("begins_ns")


def _opened(story: RolloutStory, entry: Entry) -> None:
    body = entry.body
    phase = PhaseOpened(body["mode"], body["below"], entry.index, entry.time_ns)
    story.group(body["group"]).phases.append(phase)


def _unreached(story: RolloutStory, entry: Entry) -> None:
    story.group(entry.body["group"]).unreached.update(entry.body["devices"])
    for name in entry.body["devices"]:
        story.device(name).became("unreached", entry)


def _measured(story: RolloutStory, entry: Entry) -> None:
    body = RolloutMeasured.model_validate(entry.body)
    story.group(body.group).measured.append(MeasuredThen(body, entry.index, entry.time_ns))
    if body.outcome == "pass":
        _turn(story, "soaking", entry)


def _resumed(story: RolloutStory, entry: Entry) -> None:
    """Go on as before the pause, in spite of what was found."""
    before = [turn.stage for turn in story.turns if turn.stage != "paused"]
    _turn(story, before[-1], entry)
    verdict = story.verdict
    if verdict is None or verdict.body.outcome == "pass":
        return
    keys = [(one.outcome, (one.gate, one.of_class)) for one in verdict.body.gates]
    story.pardons.append(
        Pardon(
            entry.index,
            frozenset(key for outcome, key in keys if outcome == "fail"),
            frozenset(key for outcome, key in keys if outcome == "inconclusive"),
        )
    )


def _taken_back(story: RolloutStory, entry: Entry) -> None:
    story.back_to = entry.body["to"]


def _aborted(story: RolloutStory, entry: Entry) -> None:
    story.superseded_by = entry.body.get("by")
    _turn(story, "superseded" if story.superseded_by else "aborted", entry)


def _turn(story: RolloutStory, stage: RolloutStage, entry: Entry) -> None:
    reason = str(entry.body.get("reason", ""))
    story.turns.append(Turn(stage, entry.index, entry.time_ns, entry.actor, reason))


def _compared(story: RolloutStory, entry: Entry) -> None:
    device = story.device(str(entry.device))
    body = ModelCompared.model_validate(entry.body)
    story.heard[entry.index] = StoredReport(entry.index, entry.device, body)
    report = ComparedThen(str(entry.device), entry.index, entry.time_ns, entry.body["comparison"])
    story.reports.append(report)
    if report.shadow:
        device.shadowed = True
        if device.stage in {None, "unreached"}:
            device.became("shadowing", entry)
    else:
        device.compared = True


def _status(story: RolloutStory, entry: Entry) -> None:
    device, state = story.device(str(entry.device)), entry.body["state"]
    reason = entry.body.get("reason", "")
    body = DeviceModelStatus.model_validate(entry.body)
    story.heard[entry.index] = StoredReport(entry.index, entry.device, body)
    if body.version != story.planned.version:
        if state == "active" and device.first_ran_ns is not None:
            device.became("rolled_back", entry, f"runs model {entry.body['version']} again")
    elif state == "active":
        device.first_ran_ns = device.first_ran_ns or entry.time_ns
        device.became("switched", entry, reason)
    elif state == "shadowing":
        device.shadowed = device.shadowed or entry.body.get("former") is None
        if device.first_ran_ns is None:
            device.became("shadowing", entry)
    elif state == "settled":
        device.became("settled", entry, reason)
    elif state == "rolled_back":
        device.became("rolled_back", entry, reason)
    elif state == "failed":
        device.became("failed" if device.first_ran_ns else "refused", entry, reason)


_TURNS: Mapping[str, RolloutStage] = {
    RolloutStarted.kind: "running",
    GroupOpened.kind: "running",
    RolloutPaused.kind: "paused",
    RolloutRolledBack.kind: "rolled_back",
    RolloutFinished.kind: "finished",
}
_CHANGES: Mapping[str, Callable[[RolloutStory, Entry], None]] = {
    ModelCompared.kind: _compared,
    DeviceModelStatus.kind: _status,
    RolloutApproved.kind: _approved,
    RolloutStarted.kind: _started,
    GroupOpened.kind: _opened,
    RolloutUnreached.kind: _unreached,
    RolloutMeasured.kind: _measured,
    RolloutResumed.kind: _resumed,
    RolloutRolledBack.kind: _taken_back,
    RolloutAborted.kind: _aborted,
}
