"""The story of one rollout: its part of the state, with the bodies of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts import entries as bodies
from fleetledger.coordinator.topics.rollouts import state as rollout_state
from fleetledger.coordinator.topics.rollouts.membership import DeviceStage
from fleetledger.coordinator.topics.rollouts.verdict_check import StoredReport


@dataclass(frozen=True)
class MeasuredThen:
    """A verdict, and when it was written."""

    body: bodies.RolloutMeasured
    index: int
    time_ns: int


@dataclass(frozen=True)
class ComparedThen:
    """A report of a device, as plain JSON."""

    device: str
    index: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class GroupStory:
    """A group, as far as it was opened and measured."""

    number: int
    phases: tuple[rollout_state.PhaseOpened, ...]
    measured: tuple[MeasuredThen, ...]


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

    def became(self, stage: DeviceStage, entry: Entry, reason: str = "") -> None:
        """Take in what it says of itself."""
        self.stage, self.reason, self.index, self.time_ns = (
            stage,
            reason,
            entry.index,
            entry.time_ns,
        )


@dataclass
class RolloutStory:
    """A rollout, and what its entries say besides."""

    rollout: rollout_state.Rollout
    own: dict[int, Entry] = field(default_factory=dict)
    """Its own entries by index."""
    verdicts: list[MeasuredThen] = field(default_factory=list)
    unreached: set[str] = field(default_factory=set)
    """Devices that a group did without."""
    devices: dict[str, DeviceStory] = field(default_factory=dict)
    reports: list[ComparedThen] = field(default_factory=list)
    heard: dict[int, StoredReport] = field(default_factory=dict)
    """Reports of devices, by entry; verdicts are made of some of them."""
    last_ns: int = 0

    @property
    def planned(self) -> bodies.RolloutPlanned:
        """The plan."""
        return self.rollout.planned

    @property
    def stage(self) -> rollout_state.RolloutStage:
        """The stage that it has come to."""
        return self.rollout.stage

    @property
    def last(self) -> rollout_state.Turn:
        """The turn that brought it there."""
        return self.rollout.turns[-1]

    @property
    def reason(self) -> str:
        """The reason that the last turn gives."""
        return str(self.own[self.last.index].body.get("reason", ""))

    @property
    def by_operator(self) -> bool:
        """Return whether a person made the last turn."""
        return self.own[self.last.index].actor.startswith("operator")

    @cached_property
    def groups(self) -> dict[int, GroupStory]:
        """Every group of the plan, by number."""
        return {
            number: GroupStory(
                number,
                tuple(one for one in self.rollout.opened if one.group == number),
                tuple(one for one in self.verdicts if one.body.group == number),
            )
            for number in range(1, len(self.planned.plan.groups) + 1)
        }

    @property
    def opened(self) -> list[GroupStory]:
        """The groups that were let go, in their order."""
        return [group for group in self.groups.values() if group.phases]

    @property
    def newest(self) -> GroupStory | None:
        """The group that was opened last."""
        return self.opened[-1] if self.opened else None

    @property
    def verdict(self) -> MeasuredThen | None:
        """The verdict that was written last."""
        return self.verdicts[-1] if self.verdicts else None

    def device(self, name: str) -> DeviceStory:
        """Return a device, to change."""
        return self.devices.setdefault(name, DeviceStory())


def told(rollout: rollout_state.Rollout, entries: Iterable[Entry]) -> RolloutStory:
    """Return the story of a rollout from its own entries and those of devices, in order."""
    story, own = RolloutStory(rollout), set(rollout.entries)
    for entry in entries:
        if entry.index in own:
            story.own[entry.index] = entry
            if entry.kind == bodies.RolloutMeasured.kind:
                body = bodies.RolloutMeasured.model_validate(entry.body)
                story.verdicts.append(MeasuredThen(body, entry.index, entry.time_ns))
            elif entry.kind == bodies.RolloutUnreached.kind:
                _unreached(story, entry)
        elif entry.kind == bodies.ModelCompared.kind:
            _compared(story, entry)
        elif entry.kind == DeviceModelStatus.kind:
            _status(story, entry)
        else:
            continue
        story.last_ns = entry.time_ns
    return story


def _unreached(story: RolloutStory, entry: Entry) -> None:
    story.unreached.update(entry.body["devices"])
    for name in entry.body["devices"]:
        story.device(name).became("unreached", entry)


def _compared(story: RolloutStory, entry: Entry) -> None:
    device, said = story.device(str(entry.device)), entry.body["comparison"]
    body = bodies.ModelCompared.model_validate(entry.body)
    story.heard[entry.index] = StoredReport(entry.index, entry.device, body)
    story.reports.append(ComparedThen(str(entry.device), entry.index, said))
    if said["mode"] == "shadow":
        device.shadowed = True
        if device.stage in {None, "unreached"}:
            device.became("shadowing", entry)


def _status(story: RolloutStory, entry: Entry) -> None:
    body = DeviceModelStatus.model_validate(entry.body)
    device, version = story.device(str(entry.device)), body.status.version
    state, reason = body.status.state, body.status.reason
    story.heard[entry.index] = StoredReport(entry.index, entry.device, body)
    if version != story.planned.version:
        if state == "active" and device.first_ran_ns is not None:
            device.became("rolled_back", entry, f"runs model {version} again")
    elif state == "active":
        device.first_ran_ns = device.first_ran_ns or entry.time_ns
        device.became("switched", entry, reason)
    elif state == "shadowing":
        device.shadowed = device.shadowed or body.former is None
        if device.first_ran_ns is None:
            device.became("shadowing", entry)
    elif state == "settled":
        device.became("settled", entry, reason)
    elif state == "rolled_back":
        device.became("rolled_back", entry, reason)
    elif state == "failed":
        device.became("failed" if device.first_ran_ns else "refused", entry, reason)
