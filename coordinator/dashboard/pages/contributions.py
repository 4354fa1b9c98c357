"""What devices gave, what became of it, and how much it is."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports import contributions
from fleetledger.coordinator.reports.model_waits import contributions_wait
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.contributions.state import GivenAmount
from fleetledger.transport.pages.words import plural

SHOWN = 40
HOUR_NS, DAY_NS = 3600 * 10**9, 86_400 * 10**9
HOURS, DAYS = 24, 30
"""That are drawn."""


class ContributionsPage(PageModel):
    """What devices gave, newest first."""

    device: str
    stage: int | None
    state: str
    model: int | None
    wait: Wait | None
    """What those wait for that no version is made of, of all devices."""
    states: dict[str, GivenAmount]
    """How many had the same end."""
    by_hour: contributions.CountsOverTime
    by_day: contributions.CountsOverTime
    lines: tuple[contributions.ContributionFacts, ...]
    older: int | None

    @property
    def words(self) -> dict[str, str]:
        """What became of contributions, in words."""
        return contributions.STATES


def read(sources: Sources, asked: Asked) -> ContributionsPage:
    """Return contributions."""
    query = asked.query
    wanted = contributions.ContributionFilter(
        device=query.get("device", "").strip() or None,
        stage=count_of(query.get("stage")),
        state=query["state"] if query.get("state") in contributions.STATES else None,
        model=count_of(query.get("model")),
        before=count_of(query.get("before")) or 2**62,
    )
    found = contributions.given(sources.ledger, wanted, SHOWN + 1)
    states = contributions.by_state(sources.ledger, wanted)
    return ContributionsPage(
        title=_title(states, wanted),
        device=wanted.device or "",
        stage=wanted.stage,
        state=wanted.state or "",
        model=wanted.model,
        wait=None
        if wanted.model is not None
        else contributions_wait(sources.ledger, sources.live, sources.now_ns),
        states=states,
        by_hour=contributions.over_time(sources.ledger, wanted, sources.now_ns, HOUR_NS, HOURS),
        by_day=contributions.over_time(sources.ledger, wanted, sources.now_ns, DAY_NS, DAYS),
        lines=tuple(found[:SHOWN]),
        older=found[SHOWN - 1].index if len(found) > SHOWN else None,
    )


def _title(counts: dict[str, GivenAmount], wanted: contributions.ContributionFilter) -> str:
    whom = f"{wanted.device} gave" if wanted.device else "Devices gave"
    where = f" for stage {wanted.stage}" if wanted.stage is not None else ""
    if wanted.model is not None:
        total = sum(item.count for item in counts.values())
        return f"Model {wanted.model} was made from {plural(total, 'contribution')}{where}."
    if not counts:
        return f"{whom} nothing yet{where}."
    parts = [
        f"{plural(counts['held'].count, 'contribution')} that {_counts(counts['held'].count)}"
        if "held" in counts
        else "",
        plural(counts["answer"].count, "update") + " to rounds" if "answer" in counts else "",
    ]
    said = " and ".join(filter(None, parts)) or "nothing that counts"
    retracted = counts.get("retracted")
    more = f"; {retracted.count:,} retracted" if retracted else ""
    return f"{whom} {said}{where}{more}."


def _counts(count: int) -> str:
    return "counts" if count == 1 else "count"
