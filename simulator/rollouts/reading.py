"""Reads what became of a rollout out of the ledger, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordinator.topics.models.entries import DeviceModelStatus
from coordinator.topics.rollouts.entries import (
    GroupOpened,
    ModelCompared,
    RolloutAborted,
    RolloutFinished,
    RolloutMeasured,
    RolloutPaused,
    RolloutPlanned,
    RolloutResumed,
    RolloutRolledBack,
    RolloutUnreached,
)
from schemas.rollouts import place_of
from schemas.values import DeviceId
from simulator.engines.recording import Recorded, seconds_between
from simulator.rollouts.record import End, ExposureStep, PhaseRecord, RolloutRecord
from simulator.scenario.rollout import CandidateKind

Fits = Callable[[DeviceId], bool]
"""Whether the tags of the plan fit a device."""
_FAILED = ("failed", "rolled_back")


@dataclass
class _Read:
    """What was read so far."""

    planned: RolloutPlanned
    began_ns: int
    phases: dict[tuple[int, str], PhaseRecord] = field(default_factory=dict)
    ever: set[DeviceId] = field(default_factory=set)
    running: set[DeviceId] = field(default_factory=set)
    failed: set[DeviceId] = field(default_factory=set)
    unreached: set[DeviceId] = field(default_factory=set)
    compared: int = 0
    exposure: list[ExposureStep] = field(default_factory=list)
    end: End = "open"
    reason: str = ""
    ended_ns: int = 0


@dataclass(frozen=True)
class ParticipatingFleet:
    """Whom a rollout may be about."""

    devices: tuple[DeviceId, ...]
    fits: Fits

    @property
    def members(self) -> tuple[DeviceId, ...]:
        """Those that the plan is about."""
        return tuple(filter(self.fits, self.devices))


def read_rollout(
    entries: Iterable[Recorded], fleet: ParticipatingFleet, candidate: CandidateKind
) -> RolloutRecord | None:
    """Return the record of the last rollout that `entries` plan; None where they plan none."""
    found: _Read | None = None
    for body, device, time_ns in entries:
        if isinstance(body, RolloutPlanned):
            found = _Read(body, time_ns, exposure=[ExposureStep(seconds=0, ever=0, running=0)])
        elif found is not None:
            _take(found, body, device, time_ns, fleet)
    return _record(found, fleet, candidate) if found is not None else None


def _take(
    found: _Read, body: object, device: DeviceId | None, time_ns: int, fleet: ParticipatingFleet
) -> None:
    since = seconds_between(found.began_ns, time_ns)
    if isinstance(body, DeviceModelStatus):
        if device is not None:
            _take_status(found, body, device, since)
        return
    if getattr(body, "rollout", found.planned.rollout) != found.planned.rollout:
        return
    match body:
        case GroupOpened():
            _open(found, body, since, fleet)
        case RolloutMeasured():
            _measure(found, body, since)
        case ModelCompared():
            found.compared += body.comparison.rollout == found.planned.rollout
        case RolloutUnreached():
            found.unreached.update(body.devices)
        case _:
            _take_end(found, body, time_ns)


def _take_end(found: _Read, body: object, time_ns: int) -> None:
    match body:
        case RolloutPaused():
            found.end, found.reason = "paused", body.reason
        case RolloutResumed():
            found.end, found.reason = "open", ""
        case RolloutRolledBack():
            found.end, found.reason = "rolled back", body.reason
        case RolloutFinished():
            found.end, found.reason = "finished", ""
        case RolloutAborted():
            found.end, found.reason = "aborted", body.reason
        case _:
            return
    found.ended_ns = time_ns


def _take_status(found: _Read, body: DeviceModelStatus, device: DeviceId, since: float) -> None:
    is_candidate, before = body.version == found.planned.version, (found.ever, found.running)
    if body.state == "active":
        found.ever = found.ever | {device} if is_candidate else found.ever
        without = found.running - {device}
        found.running = without | {device} if is_candidate else without
    elif is_candidate and body.state in _FAILED:
        found.failed.add(device)
        found.running = found.running - {device}
    if (found.ever, found.running) != before:
        found.exposure.append(
            ExposureStep(seconds=since, ever=len(found.ever), running=len(found.running))
        )


def _open(found: _Read, body: GroupOpened, since: float, fleet: ParticipatingFleet) -> None:
    salt = found.planned.salt
    found.phases.setdefault(
        (body.group, body.mode),
        PhaseRecord(
            group=body.group,
            mode=body.mode,
            devices=sum(place_of(salt, name) < body.below for name in fleet.members),
            opened_seconds=since,
        ),
    )


def _measure(found: _Read, body: RolloutMeasured, since: float) -> None:
    key = (body.group, body.mode)
    opened = found.phases.get(key)
    if opened is not None:
        found.phases[key] = opened.model_copy(
            update={
                "decided_seconds": since,
                "outcome": body.outcome,
                "gates": body.gates,
                "reason": body.reason,
                "evidence": len(body.entries),
            }
        )


def _record(found: _Read, fleet: ParticipatingFleet, candidate: CandidateKind) -> RolloutRecord:
    ended_ns = found.ended_ns or found.began_ns
    return RolloutRecord(
        candidate=candidate,
        version=found.planned.version,
        former=found.planned.former,
        end=found.end,
        reason=found.reason,
        devices=len(fleet.devices),
        members=len(fleet.members),
        phases=tuple(found.phases.values()),
        exposure=tuple(found.exposure),
        seconds=seconds_between(found.began_ns, ended_ns),
        compared=found.compared,
        failed=len(found.failed),
        unreached=len(found.unreached),
    )
