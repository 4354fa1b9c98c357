"""Which stage is open, who is missing, and what each stage taught."""

from __future__ import annotations

from dataclasses import replace

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports.answers import FleetNow, StageNow
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.stages import StageFacts, newest_stages
from fleetledger.transport.pages.words import plural

SHOWN = 25
_ALL = 2**62


class StagesPage(PageModel):
    """The stages, newest first."""

    open: StageNow | None
    """The stage that is open, with who answered and who is missing."""
    stopped_index: int | None
    stopped: str
    """Why the open stage asks for no more rounds."""
    stages: tuple[StageFacts, ...]
    older: int | None


def read(sources: Sources, asked: Asked) -> StagesPage:
    """Return the stages."""
    fleet = fleet_now(sources.ledger, sources.live, sources.now_ns)
    before = count_of(asked.query.get("before")) or _ALL
    found = newest_stages(sources.ledger, before, SHOWN + 1)
    return StagesPage(
        title=_title(fleet, found),
        open=fleet.stage,
        stopped_index=fleet.stopped_rounds.index if fleet.stopped_rounds else None,
        stopped=fleet.stopped_rounds.reason if fleet.stopped_rounds else "",
        stages=tuple(as_it_stands(stage, fleet.stage) for stage in found[:SHOWN]),
        older=found[SHOWN - 1].stage if len(found) > SHOWN else None,
    )


def open_title(stage: StageNow) -> str:
    """Say how far the stage is that is open."""
    expected = len(stage.answered) + len(stage.missing)
    if not stage.missing:
        return f"Stage {stage.number} is open, and all of {plural(expected, 'device')} answered."
    return (
        f"Stage {stage.number} is open: {len(stage.answered)} of {plural(expected, 'device')} "
        "answered."
    )


def as_it_stands(stage: StageFacts, now: StageNow | None) -> StageFacts:
    """Return a stage with who answered until now, where it is the one that is open."""
    if now is None or now.number != stage.stage:
        return stage
    answered = len(now.answered)
    return replace(stage, answered=answered, expected=answered + len(now.missing))


def _title(fleet: FleetNow, found: list[StageFacts]) -> str:
    if fleet.stopped_rounds is not None and fleet.stage is not None:
        return f"Stage {fleet.stage.number} is open, and its rounds have stopped."
    if fleet.stage is not None:
        return open_title(fleet.stage)
    if not found:
        return "No stage was opened yet: say which classes the fleet is to learn."
    return f"No stage is open; stage {found[0].stage} was the last one."
