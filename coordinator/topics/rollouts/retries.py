"""Devices on which a candidate failed get it again, after a time that doubles with each failure."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.live import NANOSECONDS
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.coordinator.topics.rollouts.state import GroupMember, Rollout
from fleetledger.schemas.values import DeviceId


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
