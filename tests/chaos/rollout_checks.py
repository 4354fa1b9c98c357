"""What must be true of rollouts at the end of every run: whoever was killed, the same verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.rollouts.story import RolloutStory, told
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.scope import Scope
from fleetledger.coordinator.topics.rollouts.state import RolloutStage
from fleetledger.coordinator.topics.rollouts.verdict_check import StoredReport, differences
from fleetledger.schemas.rollouts import place_of
from fleetledger.schemas.values import ClassName, DeviceId
from tests.chaos.outcome import FleetOutcome

_REPORTS = ("settled", "failed", "rolled_back")


@dataclass(frozen=True)
class RolloutEnd:
    """How a rollout ended: what a disturbed one has to end with, too."""

    stage: RolloutStage
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


def ends_of(outcome: FleetOutcome, ledger: LedgerReader) -> Mapping[int, RolloutEnd]:
    """Return how each rollout of a run ended, by number."""
    return {story.planned.rollout: _end(story) for story in stories(outcome.state, ledger)}


def stories(state: State, ledger: LedgerReader) -> list[RolloutStory]:
    """Return what the ledger says of every rollout; a fleet of chaos has one at most."""
    found = state.rollouts.by_number.values()
    return [told(rollout, ledger.entries(rollout.index, ledger.size)) for rollout in found]


def strangers(story: RolloutStory) -> Iterator[str]:
    """Say which devices ran a candidate that was never let go out to them."""
    planned = story.planned
    bounds = [one.below for one in story.rollout.opened if one.mode == "run"]
    for name, device in sorted(story.devices.items()):
        place = place_of(planned.salt, DeviceId(name))
        if device.first_ran_ns is not None and place >= max(bounds, default=0):
            yield f"{name} ran model {planned.version}, and its group was never opened"


def counted_twice(story: RolloutStory, anew: frozenset[DeviceId]) -> Iterator[str]:
    """Say which comparisons are in the ledger twice; of devices installed `anew` they may be."""
    pairs = Counter(
        (one.device, one.body["candidate"], one.body["active"]) for one in story.reports
    )
    for (device, *_), times in pairs.items():
        if times > 1 and device not in anew:
            yield f"{device}: compared model {story.planned.version} with one {times} times"


def made_again(story: RolloutStory) -> Iterator[str]:
    """Say how verdicts differ from those that the entries which they name give."""
    planned = story.planned
    reports = [one for _, one in sorted(story.heard.items()) if _counts(one, planned.version)]
    for measured in story.verdicts:
        body, index = measured.body, measured.index
        named = [one for one in reports if one.index in body.entries]
        before = [one.index for one in reports if one.index < index]
        scope = Scope(body.group, body.mode, body.members, planned.classes, planned.devices)
        for how in differences(body, planned.plan.gates, scope, named, before):
            yield f"verdict on group {body.group}: {how}"


def _counts(report: StoredReport, version: int) -> bool:
    """Whether a verdict is made of it: a comparison, or a candidate that settled or failed."""
    if not isinstance(report.body, DeviceModelStatus):
        return True
    status = report.body.status
    return status.version == version and status.state in _REPORTS


def _end(story: RolloutStory) -> RolloutEnd:
    last = story.verdict.body.gates if story.verdict is not None else ()
    fails = frozenset((one.gate, one.of_class) for one in last if one.outcome == "fail")
    ran = {one.group for one in story.rollout.opened if one.mode == "run"}
    return RolloutEnd(story.stage, fails, len(ran))
