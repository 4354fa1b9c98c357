"""Kinds of entry of rollouts: how each changes the state, and what is said of it."""

from __future__ import annotations

import logging

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import EntryContext, Follows, Kind, LedgerTopic
from fleetledger.coordinator.core.phrases import some
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
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.rollouts import (
    WHOLE,
)
from fleetledger.schemas.times import iso_time
from fleetledger.schemas.values import DeviceId


def _plan(rollouts: state.RolloutsState, body: entries.RolloutPlanned, at: EntryContext) -> None:
    evidence = Evidence(body.plan.gates, body.judges)
    rollouts.by_number[body.rollout] = state.Rollout(
        body, [state.Turn("planned", at.index, at.time_ns)], evidence=evidence
    )
    if rollouts.learned is not None and body.version >= rollouts.learned:
        rollouts.learned = None


def _say_planned(body: entries.RolloutPlanned, _: EntryContext) -> str:
    instead = f" in place of model {body.former}" if body.former is not None else ""
    sizes = ", ".join(_size(size) for size in body.plan.groups)
    of = f" of devices with {' and '.join(map(str, body.plan.tags))}" if body.plan.tags else ""
    return f"Rollout {body.rollout} takes model {body.version}{instead} to {sizes}{of}."


def _size(size: float) -> str:
    if isinstance(size, int):
        return "1 device" if size == 1 else f"{count_of(size, 'device')}"
    return "all" if size == 1 else f"{100 * size:.3g} %"


def _approve(
    rollouts: state.RolloutsState, body: entries.RolloutApproved, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.approved[body.group] = at.index
    if rollout.stage == "planned":
        rollout.turn("approved", at)


def _say_approved(body: entries.RolloutApproved, _: EntryContext) -> str:
    return f"Group {body.group} of rollout {body.rollout} may go."


def _start(rollouts: state.RolloutsState, body: entries.RolloutStarted, at: EntryContext) -> None:
    """Begin it in place of the one before, whose reports nobody asks for any more."""
    for other in rollouts.by_number.values():
        other.members, other.left = {}, {}
        other.evidence = Evidence(other.planned.plan.gates, other.planned.judges)
    rollout = rollouts.by_number[body.rollout]
    rollout.turn("running", at)
    rollout.begins_ns = max(at.time_ns, body.begins_ns or 0)
    rollouts.active = rollout


def _say_started(body: entries.RolloutStarted, _: EntryContext) -> str:
    when = "" if body.begins_ns is None else f" at {iso_time(body.begins_ns)}"
    return f"Rollout {body.rollout} begins{when}."


def _open_group(rollouts: state.RolloutsState, body: entries.GroupOpened, at: EntryContext) -> None:
    """Open a phase of a group; who is in it follows from the entry that offers it."""
    rollout = rollouts.by_number[body.rollout]
    rollout.turn("running", at)
    rollout.last = None
    rollout.opened.append(
        state.PhaseOpened(body.group, body.mode, body.below, at.index, at.time_ns)
    )
    rollout.phase = state.Phase(body.group, body.mode, body.below, at.time_ns)


def _say_opened(body: entries.GroupOpened, _: EntryContext) -> str:
    what = "measures the model beside its own" if body.mode == "shadow" else "runs the model"
    return f"Group {body.group} of rollout {body.rollout} {what}: {_share(body.below)}."


def _share(below: int) -> str:
    return f"devices of the first {100 * below / WHOLE:.4g} % of places"


def _compare(rollouts: state.RolloutsState, body: entries.ModelCompared, at: EntryContext) -> None:
    of_device = rollouts.compared.setdefault(at.maker, {})
    of_device[body.comparison.key] = Reported(at.index, body.content)
    rollout = rollouts.active
    if rollout is None or rollouts.comparison_fault(at.maker, body.comparison):
        return
    apply_report(rollout.evidence, rollout.number, body, at.maker, at.index)
    rollout.members[at.maker].compared = True
    rollouts.review(at.maker)


def _say_compared(body: entries.ModelCompared, at: EntryContext) -> str:
    found = body.comparison
    images = sum(pairs.images for pairs in found.classes.values())
    when = "before it switches" if found.mode == "shadow" else "after it switched"
    return (
        f"Device {at.device} compared model {found.candidate_version} with model "
        f"{found.active_version} on {images} held-out and "
        f"{count_of(found.unlabelled, 'other sample')}, {when}."
    )


def _do_without(
    rollouts: state.RolloutsState, body: entries.RolloutUnreached, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.absences.append(at.index)
    for device in body.devices:
        if device in rollout.members:
            rollout.members[device].unreached = True
            rollouts.review(device)


def _say_unreached(body: entries.RolloutUnreached, _: EntryContext) -> str:
    return (
        f"Group {body.group} of rollout {body.rollout} goes on without {some(body.devices)}: away."
    )


def _measure(
    rollouts: state.RolloutsState, body: entries.RolloutMeasured, at: EntryContext
) -> None:
    rollout = rollouts.by_number[body.rollout]
    rollout.last = body
    rollout.verdicts.append(at.index)
    if body.outcome == "pass" and rollout.phase is not None:
        rollout.phase.passed_ns = at.time_ns
        rollout.turn("soaking", at)


def _say_measured(body: entries.RolloutMeasured, _: EntryContext) -> str:
    where = f"group {body.group} of rollout {body.rollout}"
    what = f"Measuring in {where}" if body.mode == "shadow" else f"Running in {where}"
    verdict = {"pass": "passed", "fail": "failed", "inconclusive": "tells too little"}
    return f"{what} {verdict[body.outcome]}: {body.reason}"


def _pause(rollouts: state.RolloutsState, body: entries.RolloutPaused, at: EntryContext) -> None:
    rollouts.by_number[body.rollout].turn("paused", at)


def _say_paused(body: entries.RolloutPaused, _: EntryContext) -> str:
    return f"Rollout {body.rollout} is paused: {body.reason}"


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


def _say_resumed(body: entries.RolloutResumed, _: EntryContext) -> str:
    return f"Rollout {body.rollout} goes on" + (f": {body.reason}" if body.reason else ".")


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


def _say_rolled_back(body: entries.RolloutRolledBack, _: EntryContext) -> str:
    to = f"goes back to model {body.to}" if body.to is not None else "ends; there is nothing before"
    return f"Rollout {body.rollout} {to}: {body.reason}"


def _finish(rollouts: state.RolloutsState, body: entries.RolloutFinished, at: EntryContext) -> None:
    _end(rollouts, body.rollout, "finished", at)


def _say_finished(body: entries.RolloutFinished, _: EntryContext) -> str:
    return f"Rollout {body.rollout} is finished: all groups passed."


def _abort(rollouts: state.RolloutsState, body: entries.RolloutAborted, at: EntryContext) -> None:
    _end(rollouts, body.rollout, "aborted" if body.by is None else "superseded", at)


def _say_aborted(body: entries.RolloutAborted, _: EntryContext) -> str:
    return f"Rollout {body.rollout} is ended, and devices keep what they run: {body.reason}"


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
        Kind(entries.RolloutPlanned, _plan, _say_planned),
        Kind(entries.RolloutApproved, _approve, _say_approved),
        Kind(entries.RolloutStarted, _start, _say_started),
        Kind(entries.GroupOpened, _open_group, _say_opened),
        Kind(entries.ModelCompared, _compare, _say_compared, worth=logging.DEBUG),
        Kind(entries.RolloutUnreached, _do_without, _say_unreached),
        Kind(
            entries.RolloutMeasured,
            _measure,
            _say_measured,
            worth=lambda body: logging.INFO if body.outcome == "pass" else logging.WARNING,
        ),
        Kind(entries.RolloutPaused, _pause, _say_paused, worth=logging.WARNING, trouble=True),
        Kind(entries.RolloutResumed, _resume, _say_resumed),
        Kind(
            entries.RolloutRolledBack,
            _go_back,
            _say_rolled_back,
            worth=logging.WARNING,
            trouble=True,
        ),
        Kind(entries.RolloutFinished, _finish, _say_finished),
        Kind(entries.RolloutAborted, _abort, _say_aborted),
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
