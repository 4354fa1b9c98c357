"""Which rollout goes on, what it waits for, and how those before it ended."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports.rollouts.lookup import summaries, unfinished
from fleetledger.coordinator.reports.rollouts.report import RolloutSummary

SHOWN = 20
"""Rollouts of a page."""


class RolloutsPage(PageModel):
    """The rollouts."""

    now: RolloutSummary | None
    """The one that something is still to come of."""
    rollouts: tuple[RolloutSummary, ...]
    """Newest first."""
    older: int | None
    """Below which number there are more."""


def read(sources: Sources, asked: Asked) -> RolloutsPage:
    """Return the rollouts, newest first."""
    before = count_of(asked.query.get("before"))
    found = summaries(sources.ledger, sources.now_ns, before, SHOWN + 1)
    open_ones = unfinished(sources.ledger, sources.now_ns)
    begun = [one for one in open_ones if one.stage not in {"planned", "approved"}]
    now = next(iter(begun or open_ones), None)
    return RolloutsPage(
        title=_title(now, found),
        now=now,
        rollouts=tuple(found[:SHOWN]),
        older=found[SHOWN - 1].number if len(found) > SHOWN else None,
    )


def _title(now: RolloutSummary | None, found: list[RolloutSummary]) -> str:
    if now is not None:
        return now.sentence
    if not found:
        return "No model was ever rolled out group by group."
    return f"No rollout is open. The last: {found[0].sentence}"
