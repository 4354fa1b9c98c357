"""What must be true of rollouts at the end of every run: whoever was killed, the same verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.core.state import State, read_entry
from coordinator.ledger.reader import LedgerReader
from coordinator.topics.models.entries import DeviceModelStatus
from coordinator.topics.rollouts.entries import (
    GateFinding,
    GroupOpened,
    ModelCompared,
    RolloutMeasured,
)
from coordinator.topics.rollouts.scope import Scope
from coordinator.topics.rollouts.state import Stage
from coordinator.topics.rollouts.verifying import StoredReport, differences
from schemas.rollouts import place_of
from schemas.values import ClassName, DeviceId
from simulator.chaos.outcome import FleetOutcome

_REPORTS = ("settled", "failed", "rolled_back")


@dataclass(frozen=True)
class RolloutEnd:
    """How a rollout ended: what a disturbed one has to end with, too."""

    stage: Stage
    fails: frozenset[tuple[str, ClassName | None]]
    """Gates that failed in the verdict that ended it, with their class."""
    groups: int
    """That were let run the candidate."""

    def is_like(self, undisturbed: RolloutEnd) -> bool:
        """Whether the verdict is that of a run in which nothing failed.

        It may come a group earlier: who comes back late may belong to a group that is open, and so
        tell more than those who were there at first.
        """
        if (self.stage, self.fails) != (undisturbed.stage, undisturbed.fails):
            return False
        return self.groups == undisturbed.groups or (
            bool(self.fails) and self.groups < undisturbed.groups
        )


@dataclass
class RolloutHistory:
    """What the entries of a ledger say of one rollout, in order."""

    rollout: int
    candidate: int
    opened: list[GroupOpened] = field(default_factory=list)
    measured: list[tuple[int, RolloutMeasured]] = field(default_factory=list)
    """Verdicts with their indices."""
    reports: list[StoredReport] = field(default_factory=list)
    comparisons: Counter[tuple[DeviceId, object, object]] = field(default_factory=Counter)
    """By device, candidate and what that was compared with."""
    ran: set[DeviceId] = field(default_factory=set)
    """Devices that ran the candidate at any time."""

    @property
    def below(self) -> int:
        """The bound of places of those who were let run it; 0 for nobody."""
        return max((one.below for one in self.opened if one.mode == "run"), default=0)


def ends_of(outcome: FleetOutcome, ledger: LedgerReader) -> Mapping[int, RolloutEnd]:
    """Return how each rollout of a run ended, by number."""
    return {story.rollout: _end(outcome.state, story) for story in told(outcome.state, ledger)}


def told(state: State, ledger: LedgerReader) -> list[RolloutHistory]:
    """Return what the ledger says of every rollout."""
    return [
        _story(RolloutHistory(number, rollout.planned.version), ledger)
        for number, rollout in state.rollouts.by_number.items()
    ]


def strangers(state: State, story: RolloutHistory) -> Iterator[str]:
    """Say which devices ran a candidate that was never let go out to them."""
    salt = state.rollouts.by_number[story.rollout].planned.salt
    for device in sorted(story.ran):
        if place_of(salt, device) >= story.below:
            yield f"{device} ran model {story.candidate}, and its group was never opened"


def counted_twice(story: RolloutHistory, anew: frozenset[DeviceId]) -> Iterator[str]:
    """Say which comparisons are in the ledger twice; of devices installed `anew` they may be."""
    for (device, *_), times in story.comparisons.items():
        if times > 1 and device not in anew:
            yield f"{device}: compared model {story.candidate} with the same one {times} times"


def made_again(state: State, story: RolloutHistory) -> Iterator[str]:
    """Say how verdicts differ from those that the entries which they name give."""
    planned = state.rollouts.by_number[story.rollout].planned
    for index, measured in story.measured:
        named = [one for one in story.reports if one.index in measured.entries]
        before = [one.index for one in story.reports if one.index < index]
        scope = Scope(measured.group, measured.mode, measured.members, planned.classes)
        for how in differences(measured, planned.plan.gates, scope, named, before):
            yield f"verdict on group {measured.group}: {how}"


def _story(story: RolloutHistory, ledger: LedgerReader) -> RolloutHistory:
    for entry in ledger.entries():
        body = read_entry(entry.kind, entry.body)
        match body:
            case GroupOpened() if body.rollout == story.rollout:
                story.opened.append(body)
            case RolloutMeasured() if body.rollout == story.rollout:
                story.measured.append((entry.index, body))
            case ModelCompared() if body.comparison.rollout == story.rollout:
                assert entry.device is not None
                known = body.comparison
                story.comparisons[entry.device, known.candidate, known.active] += 1
                story.reports.append(StoredReport(entry.index, entry.device, body))
            case DeviceModelStatus() if body.version == story.candidate:
                _take_status(story, body, StoredReport(entry.index, entry.device, body))
    return story


def _take_status(story: RolloutHistory, body: DeviceModelStatus, report: StoredReport) -> None:
    if body.state == "active" and report.device is not None:
        story.ran.add(report.device)
    if body.state in _REPORTS:
        story.reports.append(report)


def _end(state: State, story: RolloutHistory) -> RolloutEnd:
    last = story.measured[-1][1].gates if story.measured else ()
    return RolloutEnd(
        state.rollouts.by_number[story.rollout].stage,
        frozenset(map(_named, (one for one in last if one.outcome == "fail"))),
        len({one.group for one in story.opened if one.mode == "run"}),
    )


def _named(finding: GateFinding) -> tuple[str, ClassName | None]:
    return finding.gate, finding.of_class
