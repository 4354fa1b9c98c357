"""Entries that devices make, counted by device and day; none of its own."""

from __future__ import annotations

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, LedgerTopic
from fleetledger.coordinator.topics.cohorts.entries import CohortJoined, CohortRevealed
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
)
from fleetledger.coordinator.topics.daily.state import DailyState, What
from fleetledger.coordinator.topics.devices.entries import DeviceBorn, DeviceProblem
from fleetledger.coordinator.topics.keys.entries import DeviceKeyRotated
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.coordinator.topics.stages.entries import TransitionReported

KINDS_OF: dict[type[EntryBody], What] = {
    DeviceBorn: "births",
    CohortJoined: "cohort_messages",
    CohortRevealed: "cohort_messages",
    ModelCompared: "comparisons",
    ContributionAccepted: "contributions",
    DeviceEvaluated: "evaluations",
    DeviceKeyRotated: "key_changes",
    DeviceModelStatus: "model_statuses",
    NothingReported: "nothings",
    DeviceProblem: "problems",
    TransitionReported: "transitions",
    ContributionWithdrawn: "withdrawals",
}
"""Kinds of entry that are counted. An answer to a round counts as none of them: a round asks for
it, and takes one."""


def counted_as(body: EntryBody) -> What | None:
    """Return what an entry is counted as; None where a round asked for it."""
    if isinstance(body, ContributionAccepted) and body.part.round is not None:
        return None
    if isinstance(body, NothingReported) and body.nothing.round is not None:
        return None
    return KINDS_OF.get(type(body))


def size_of(body: EntryBody) -> int:
    """Return the bytes of a body as JSON."""
    return len(body.model_dump_json().encode())


def _count(daily: DailyState, body: EntryBody, at: EntryContext) -> None:
    what = counted_as(body)
    if what is not None and at.device is not None:
        payload = body.part.payload_bytes if isinstance(body, ContributionAccepted) else 0
        daily.add(at.device, at.time_ns, what, (size_of(body), payload))


DAILY = LedgerTopic("daily", kinds=(), follows=tuple(Follows(body, _count) for body in KINDS_OF))
