"""Reader of a rollout's outcome in the ledger, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.reports.rollouts.story import RolloutStory, told
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.state import Rollout, RolloutStage
from fleetledger.schemas.rollouts import place_of
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.recorder import seconds_between
from fleetledger.simulator.rollouts.record import End, ExposureStep, PhaseRecord, RolloutRecord
from fleetledger.simulator.scenario.rollout import CandidateKind

Fits = Callable[[DeviceId], bool]
"""Whether the tags of the plan fit a device."""
_ENDS: dict[RolloutStage, End] = {
    "paused": "paused",
    "rolled_back": "rolled back",
    "finished": "finished",
    "aborted": "aborted",
    "superseded": "aborted",
}
_FAILED = ("failed", "rolled_back")


@dataclass(frozen=True)
class ParticipatingFleet:
    """Whom a rollout may be about."""

    devices: tuple[DeviceId, ...]
    fits: Fits

    @property
    def members(self) -> tuple[DeviceId, ...]:
        """Those that the plan is about."""
        return tuple(filter(self.fits, self.devices))


@dataclass(frozen=True)
class _Said:
    """What a device said of a model."""

    device: DeviceId
    seconds: float
    """Since the rollout was planned."""
    version: int
    state: str


def read_rollout(
    rollout: Rollout, entries: Iterable[Entry], fleet: ParticipatingFleet, candidate: CandidateKind
) -> RolloutRecord:
    """Return the record of a rollout, which the first of `entries` plans."""
    held = list(entries)
    story, began_ns = told(rollout, held), held[0].time_ns
    when = {entry.index: seconds_between(began_ns, entry.time_ns) for entry in held}
    said = list(_said(story, when))
    last, version = story.last, story.planned.version
    return RolloutRecord(
        candidate=candidate,
        version=version,
        former=story.planned.former,
        end=_ENDS.get(last.stage, "open"),
        reason=story.reason,
        devices=len(fleet.devices),
        members=len(fleet.members),
        phases=tuple(_phases(story, fleet, when)),
        exposure=tuple(_exposure(said, version)),
        seconds=when[last.index],
        compared=len(story.reports),
        failed=len({i.device for i in said if i.version == version and i.state in _FAILED}),
        unreached=len(story.unreached),
    )


def _said(story: RolloutStory, when: dict[int, float]) -> Iterator[_Said]:
    """Yield what devices said of models, in order."""
    for index, report in sorted(story.heard.items()):
        body = report.body
        if report.device is not None and isinstance(body, DeviceModelStatus):
            yield _Said(report.device, when[index], body.status.version, body.status.state)


def _phases(
    story: RolloutStory, fleet: ParticipatingFleet, when: dict[int, float]
) -> Iterator[PhaseRecord]:
    salt = story.planned.salt
    for group in story.opened:
        verdicts = {one.body.mode: one for one in group.measured}  # the last of each
        for phase in group.phases:
            opened = PhaseRecord(
                group=group.number,
                mode=phase.mode,
                devices=sum(place_of(salt, name) < phase.below for name in fleet.members),
                opened_seconds=when[phase.index],
            )
            measured = verdicts.get(phase.mode)
            if measured is None:
                yield opened
                continue
            body = measured.body
            found = {"outcome": body.outcome, "gates": body.gates, "reason": body.reason}
            times = {"decided_seconds": when[measured.index], "evidence": len(body.entries)}
            yield opened.model_copy(update=found | times)


def _exposure(said: Iterable[_Said], version: int) -> Iterator[ExposureStep]:
    """Yield a step whenever another device has run the candidate, or a device runs it no more."""
    ever: frozenset[DeviceId] = frozenset()
    running: frozenset[DeviceId] = frozenset()
    yield ExposureStep(seconds=0, ever=0, running=0)
    for item in said:
        before, is_candidate = (ever, running), item.version == version
        if item.state == "active":
            ever = ever | {item.device} if is_candidate else ever
            running = running | {item.device} if is_candidate else running - {item.device}
        elif is_candidate and item.state in _FAILED:
            running -= {item.device}
        if (ever, running) != before:
            yield ExposureStep(seconds=item.seconds, ever=len(ever), running=len(running))
