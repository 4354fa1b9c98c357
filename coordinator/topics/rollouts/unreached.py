"""Devices that are away for long: the group does without them, and they have not failed."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.rollouts.entries import RolloutUnreached
from fleetledger.coordinator.topics.rollouts.state import Phase, Rollout
from fleetledger.schemas.values import DeviceId


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
