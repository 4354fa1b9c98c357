"""What time alone changes in the active rollout: retries, devices that are away, and when.

Devices on which a candidate failed get it again, after a time that doubles with each failure. The
group does without devices that are away for long; they have not failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.coordinator.topics.rollouts.entries import RolloutUnreached
from fleetledger.coordinator.topics.rollouts.state import GroupMember, Phase, Rollout
from fleetledger.schemas.values import DeviceId


def moments(state: State, live: Live) -> Iterator[int]:
    """Yield them in no order: of the beginning, soaks, deadlines, retries, and who is away."""
    rollout = state.rollouts.active
    if rollout is None or rollout.stage == "paused":
        return
    phase, plan = rollout.phase, rollout.planned.plan
    if phase is None:
        yield rollout.begins_ns or 0
        return
    yield from next_retry(rollout)
    if phase.passed_ns is not None:
        yield phase.passed_ns + round(plan.soak_seconds * NANOSECONDS)
    elif phase.out_ns is not None:
        yield phase.since_ns + round(plan.deadline_hours * 3600 * NANOSECONDS)
        yield from next_unreached(live, rollout)


def retries(state: State, rollout: Rollout, now_ns: int) -> Decision:
    """Offer the candidate again to the devices whose time has come."""
    due: dict[GroupOffer, list[DeviceId]] = {}
    for device, member, moment in _failed(rollout):
        desired = state.models.desired_for(device)
        if now_ns < moment or desired is None or desired.group is None:
            continue
        if desired.action > member.failed_index:
            continue  # it was offered again already
        due.setdefault(desired.group, []).append(device)
    return together(
        record(_again(rollout, group, devices[begin : begin + MAX_NAMED]))
        for group, devices in due.items()
        for begin in range(0, len(devices), MAX_NAMED)
    )


def next_retry(rollout: Rollout) -> Iterator[int]:
    """Yield when devices get it again."""
    return (moment for _, _, moment in _failed(rollout))


def _failed(rollout: Rollout) -> Iterator[tuple[DeviceId, GroupMember, int]]:
    """Yield each device that may try again, and from when on."""
    plan = rollout.planned.plan
    for device in sorted(rollout.evidence.failed):
        member = rollout.members.get(device)
        if member is None or member.failed_ns is None or member.failures > plan.retries:
            continue
        wait = plan.retry_seconds * 2 ** (member.failures - 1)
        yield device, member, member.failed_ns + round(wait * NANOSECONDS)


def _again(rollout: Rollout, group: GroupOffer, devices: list[DeviceId]) -> ModelDesired:
    return ModelDesired(
        version=rollout.planned.version,
        devices=tuple(devices),
        reason=f"tried again in group {group.group} of rollout {rollout.number}",
        group=group,
    )


def unreached(live: Live, rollout: Rollout, now_ns: int) -> Decision:
    """Name the devices that a phase waits for and that have been away for too long."""
    phase = rollout.phase
    if phase is None or now_ns < (max(phase.out_ns or 0, live.started_ns or 0) + _ns(rollout)):
        return Decision()
    gone = sorted(device for device, since in _away(live, phase) if _ns(rollout) <= now_ns - since)
    return together(
        record(
            RolloutUnreached(
                rollout=rollout.number,
                group=phase.group,
                devices=tuple(gone[begin : begin + MAX_NAMED]),
            )
        )
        for begin in range(0, len(gone), MAX_NAMED)
    )


def next_unreached(live: Live, rollout: Rollout) -> Iterator[int]:
    """Yield when devices that are away will have been so for too long."""
    phase = rollout.phase
    if phase is not None and phase.out_ns is not None:
        yield from (since + _ns(rollout) for _, since in _away(live, phase))


def _away(live: Live, phase: Phase) -> Iterator[tuple[DeviceId, int]]:
    """Yield each device that is waited for and away, and since when at the latest."""
    from_ns = max(phase.out_ns or 0, live.started_ns or 0)
    for device in phase.waiting:
        known = live.seen(device)
        if known.boot is None:
            yield device, max(from_ns, known.heard_ns or 0)


def _ns(rollout: Rollout) -> int:
    return round(rollout.planned.plan.reach_seconds * NANOSECONDS)
