"""When time alone may change what becomes of the active rollout."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.rollouts.retries import next_retry
from fleetledger.coordinator.topics.rollouts.unreached import next_unreached


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
