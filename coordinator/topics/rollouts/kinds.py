"""Kinds of entry of rollouts: how each changes the state, and what devices are told again."""

from __future__ import annotations

import logging

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, Kind, LedgerTopic
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.devices.entries import (
    DeviceAdmitted,
    DeviceBorn,
    DeviceRetired,
    DeviceTagged,
)
from fleetledger.coordinator.topics.keys.entries import DeviceEnrolled, DeviceKeyRevoked
from fleetledger.coordinator.topics.models.entries import (
    DeviceModelStatus,
    DevicePinned,
    ModelDesired,
    ModelExported,
    ModelsHeld,
    ModelWithheld,
)
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned
from fleetledger.coordinator.topics.rollouts import entries, state
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.stages.state import Reported
from fleetledger.schemas.values import DeviceId


def _plan(rollouts: state.RolloutsState, body: entries.RolloutPlanned, at: EntryContext) -> None:
    evidence = Evidence(body.plan.gates, body.judges)
    rollouts.by_number[body.rollout] = state.Rollout(
        body, [state.Turn("planned", at.index, at.time_ns)], evidence=evidence
    )
    if rollouts.learned is not None and body.version >= rollouts.learned:
        rollouts.learned = None


def _approve(
    rollouts: state.RolloutsState, body: entries.RolloutApproved, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.approved[body.group] = at.index
    if rollout.stage == "planned":
        rollout.turn("approved", at)


def _start(rollouts: state.RolloutsState, body: entries.RolloutStarted, at: EntryContext) -> None:
    """Begin it in place of the one before, whose reports nobody asks for any more."""
    for other in rollouts.by_number.values():
        other.members, other.left = {}, {}
        other.evidence = Evidence(other.planned.plan.gates, other.planned.judges)
    rollout = rollouts.by_number[body.rollout]
    rollout.turn("running", at)
    rollout.begins_ns = max(at.time_ns, body.begins_ns or 0)
    rollouts.active = rollout


def _open_group(rollouts: state.RolloutsState, body: entries.GroupOpened, at: EntryContext) -> None:
    """Open a phase of a group; who is in it follows from the entry that offers it."""
    rollout = rollouts.by_number[body.rollout]
    rollout.turn("running", at)
    rollout.last = None
    rollout.opened.append(
        state.PhaseOpened(body.group, body.mode, body.below, at.index, at.time_ns)
    )
    rollout.phase = state.Phase(body.group, body.mode, body.below, at.time_ns)


def _compare(rollouts: state.RolloutsState, body: entries.ModelCompared, at: EntryContext) -> None:
    of_device = rollouts.compared.setdefault(at.maker, {})
    of_device[body.comparison.key] = Reported(at.index, body.content)
    rollout = rollouts.active
    if rollout is None or rollouts.comparison_fault(at.maker, body.comparison):
        return
    apply_report(rollout.evidence, rollout.number, body, at.maker, at.index)
    rollout.members[at.maker].compared = True
    rollouts.review(at.maker)


def _do_without(
    rollouts: state.RolloutsState, body: entries.RolloutUnreached, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.absences.append(at.index)
    for device in body.devices:
        if device in rollout.members:
            rollout.members[device].unreached = True
            rollouts.review(device)


def _measure(
    rollouts: state.RolloutsState, body: entries.RolloutMeasured, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.last = body
    rollout.verdicts.append(at.index)
    if body.outcome == "pass" and rollout.phase is not None:
        rollout.phase.passed_ns = at.time_ns
        rollout.turn("soaking", at)


def _pause(rollouts: state.RolloutsState, body: entries.RolloutPaused, at: EntryContext) -> None:
    rollouts.by_number[body.rollout].turn("paused", at)


def _resume(rollouts: state.RolloutsState, body: entries.RolloutResumed, at: EntryContext) -> None:
    """Go on in spite of what was found; what is found besides counts as before."""
    rollout = rollouts.by_number[body.rollout]
    rollout.turn(next(one.stage for one in reversed(rollout.turns) if one.stage != "paused"), at)
    if rollout.phase is not None:
        rollout.phase.since_ns = at.time_ns
    found, rollout.last = rollout.last, None
    if found is None or found.outcome == "pass":
        return
    failed, unsure = (
        frozenset((one.gate, one.of_class) for one in found.gates if one.outcome == outcome)
        for outcome in ("fail", "inconclusive")
    )
    rollout.pardons.append(state.Pardon(at.index, failed, unsure))


def _go_back(
    rollouts: state.RolloutsState, body: entries.RolloutRolledBack, at: EntryContext
) -> None:
    _end(rollouts, body.rollout, "rolled_back", at)


def _end(
    rollouts: state.RolloutsState, number: int, stage: state.RolloutStage, at: EntryContext
) -> None:
    rollout = rollouts.by_number[number]
    rollout.end(stage, at)
    if rollouts.active is rollout:
        rollouts.active = None


def _finish(rollouts: state.RolloutsState, body: entries.RolloutFinished, at: EntryContext) -> None:
    _end(rollouts, body.rollout, "finished", at)


def _abort(rollouts: state.RolloutsState, body: entries.RolloutAborted, at: EntryContext) -> None:
    _end(rollouts, body.rollout, "aborted" if body.by is None else "superseded", at)


REPORTS = (entries.ModelCompared, DeviceModelStatus)
"""What a verdict may be made of."""


def apply_report(
    evidence: Evidence, rollout: int, body: EntryBody, device: DeviceId, index: int
) -> bool:
    """Take what an entry reports of a rollout into its evidence; return whether it counts."""
    match body:
        case entries.ModelCompared(comparison=comparison) if comparison.rollout == rollout:
            return evidence.compare(index, device, comparison)
        case DeviceModelStatus() if body.status.state == "settled":
            evidence.settle(index, device, body.status.throttled)
        case DeviceModelStatus() if body.status.state in ("failed", "rolled_back"):
            evidence.fail(index, device)
        case _:
            return False
    return True


def _take_status(rollouts: state.RolloutsState, body: DeviceModelStatus, at: EntryContext) -> None:
    """Take in what became of the candidate on a device that was offered it."""
    rollout = rollouts.active
    if rollout is None or rollout.planned.version != body.status.version:
        rollouts.review(at.maker)
        return
    member = rollout.members.get(at.maker)
    if member is not None:
        _take_answer(member, body, at)
        apply_report(rollout.evidence, rollout.number, body, at.maker, at.index)
    rollouts.review(at.maker)


def _take_answer(member: state.GroupMember, body: DeviceModelStatus, at: EntryContext) -> None:
    match body.status.state:
        case "failed" | "rolled_back":
            member.failures += 1
            member.failed_ns, member.failed_index = at.time_ns, at.index
            member.runs = member.settled = False
        case "shadowing":
            member.failed_ns = None
            member.alone = body.former is None
        case "active":
            member.runs, member.failed_ns = True, None
        case "settled":
            member.runs = member.settled = True
            member.failed_ns = None
            member.alone = member.alone or body.former is None


def _take_desired(rollouts: state.RolloutsState, body: ModelDesired, at: EntryContext) -> None:
    """See who belongs to what from here on."""
    if body.of_all and body.group is None:
        rollouts.learned = None
    if rollouts.active is None:
        return
    phase, group = rollouts.active.phase, body.group
    if body.devices is None and phase is not None and phase.is_of(group):
        phase.action = at.index
        if rollouts.trust.root is None:
            phase.out_ns = phase.since_ns = at.time_ns
    for device in body.devices or rollouts.devices.admitted:
        rollouts.review(device)


def _take_release(rollouts: state.RolloutsState, body: ReleaseSigned, at: EntryContext) -> None:
    phase = rollouts.active.phase if rollouts.active is not None else None
    if phase is not None and phase.out_ns is None and phase.action == body.action:
        phase.out_ns = phase.since_ns = at.time_ns


def _take_exported(rollouts: state.RolloutsState, body: ModelExported, _at: EntryContext) -> None:
    models = rollouts.models
    if not models.held and models.by_version[body.version].imported is None:
        rollouts.learned = body.version


def _take_withheld(rollouts: state.RolloutsState, _body: ModelWithheld, _at: EntryContext) -> None:
    rollouts.learned = None


def _take_held(rollouts: state.RolloutsState, body: ModelsHeld, _at: EntryContext) -> None:
    if body.held:
        rollouts.learned = None


def _review_named(
    rollouts: state.RolloutsState,
    body: DeviceAdmitted | DeviceRetired | DeviceKeyRevoked | DeviceEnrolled,
    _at: EntryContext,
) -> None:
    rollouts.review(body.device)


def _review_some(
    rollouts: state.RolloutsState, body: DeviceTagged | DevicePinned, _at: EntryContext
) -> None:
    for device in body.devices:
        rollouts.review(device)


def _review_maker(rollouts: state.RolloutsState, _body: DeviceBorn, at: EntryContext) -> None:
    rollouts.review(at.maker)


def _move_times(rollouts: state.RolloutsState, body: ClockCorrected, _at: EntryContext) -> None:
    """Move the times that are compared with later ones."""
    if rollouts.active is None:
        return
    phase = rollouts.active.phase
    if phase is not None:
        phase.opened_ns -= body.by_ns
        phase.since_ns -= body.by_ns
        phase.out_ns = None if phase.out_ns is None else phase.out_ns - body.by_ns
        phase.passed_ns = None if phase.passed_ns is None else phase.passed_ns - body.by_ns
    for member in rollouts.active.members.values():
        if member.failed_ns is not None:
            member.failed_ns -= body.by_ns


ROLLOUTS = LedgerTopic(
    "rollouts",
    kinds=(
        Kind(entries.RolloutPlanned, _plan),
        Kind(entries.RolloutApproved, _approve),
        Kind(entries.RolloutStarted, _start),
        Kind(entries.GroupOpened, _open_group),
        Kind(entries.ModelCompared, _compare, worth=logging.DEBUG),
        Kind(entries.RolloutUnreached, _do_without),
        Kind(
            entries.RolloutMeasured,
            _measure,
            worth=lambda body: logging.INFO if body.outcome == "pass" else logging.WARNING,
        ),
        Kind(entries.RolloutPaused, _pause, worth=logging.WARNING, trouble=True),
        Kind(entries.RolloutResumed, _resume),
        Kind(
            entries.RolloutRolledBack,
            _go_back,
            worth=logging.WARNING,
            trouble=True,
        ),
        Kind(entries.RolloutFinished, _finish),
        Kind(entries.RolloutAborted, _abort),
    ),
    follows=(
        Follows(ClockCorrected, _move_times),
        Follows(DeviceAdmitted, _review_named),
        Follows(DeviceBorn, _review_maker),
        Follows(DeviceEnrolled, _review_named),
        Follows(DeviceKeyRevoked, _review_named),
        Follows(DeviceRetired, _review_named),
        Follows(ModelExported, _take_exported),
        Follows(ModelDesired, _take_desired),
        Follows(ModelsHeld, _take_held),
        Follows(ModelWithheld, _take_withheld),
        Follows(DeviceModelStatus, _take_status),
        Follows(DeviceTagged, _review_some),
        Follows(DevicePinned, _review_some),
        Follows(ReleaseSigned, _take_release),
    ),
)
