"""What needs a person now, and everything that did, newest first."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.parts.need_actions import NeedHere, with_doing
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.history import trouble_count, troubles
from fleetledger.coordinator.reports.reports import ShownEntry
from fleetledger.transport.pages.words import plural

SHOWN = 30


class ProblemsPage(PageModel):
    """What needs a person, or did."""

    needs: tuple[NeedHere, ...]
    count: int
    """Entries that needed a person at their time."""
    entries: tuple[ShownEntry, ...]
    older: int | None


def read(sources: Sources, asked: Asked) -> ProblemsPage:
    """Return what needs a person, and the entries that did."""
    needs = fleet_now(sources.ledger, sources.live, sources.now_ns).needs
    before = count_of(asked.query.get("before"))
    start = sources.ledger.size if before is None else before
    found = troubles(sources.ledger, start, SHOWN + 1)
    count = trouble_count(sources.ledger)
    return ProblemsPage(
        title=_title(sum(need.urgency == "now" for need in needs), len(needs), count),
        needs=tuple(with_doing(need, sources.home) for need in needs),
        count=count,
        entries=tuple(map(ShownEntry.of, found[:SHOWN])),
        older=found[SHOWN - 1].index if len(found) > SHOWN else None,
    )


def _title(now: int, needs: int, count: int) -> str:
    if now:
        return f"{plural(now, 'thing needs', 'things need')} you now."
    if needs:
        return f"Nothing needs you now; {plural(needs, 'thing waits', 'things wait')} for today."
    if count:
        return f"Nothing needs you; {plural(count, 'entry', 'entries')} tell of what did."
    return "Nothing needs you, and nothing did."
