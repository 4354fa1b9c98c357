"""Which rollout goes on, what it waits for, and how those before it ended."""

from __future__ import annotations

from coordinator.dashboard.asking import count_of
from coordinator.dashboard.page import PageModel
from coordinator.dashboard.sources import Asked, Sources
from coordinator.reading.rollouts.finding import summaries
from coordinator.reading.rollouts.report import OPEN, RolloutSummary

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
    found = summaries(sources.ledger, before, SHOWN + 1)
    newest = found[0] if before is None and found else None
    now = newest if newest is not None and newest.stage in OPEN else None
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
