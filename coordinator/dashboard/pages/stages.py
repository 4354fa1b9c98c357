"""Which stage is open, who is missing, and what each stage taught."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.query import count_of
from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.coordinator.reports.answers import FleetNow, StageNow
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.stages import StageFacts, newest_stages
from fleetledger.schemas.message import Strict
from fleetledger.transport.pages.words import plural

SHOWN = 25
_ALL = 2**62


class StageLine(Strict):
    """A stage in the list."""

    stage: int
    class_names: tuple[str, ...]
    opened_index: int
    opened_ns: int
    opened_by: str
    closed_index: int | None
    closed_ns: int | None
    closed_because: str
    answered: int
    expected: int
    contributions: int
    contributors: int
    samples: int
    rounds: int
    gave: int
    """Devices that gave something, whatever became of it."""
    without: int
    """Devices that answered that they have nothing."""

    @property
    def asked(self) -> int:
        """How many devices could answer, those that came later among them."""
        return max(self.expected, self.gave + self.without)

    @property
    def late(self) -> int:
        """How many answered after it had closed."""
        return 0 if self.closed_index is None else max(0, self.gave + self.without - self.answered)


class StagesPage(PageModel):
    """The stages, newest first."""

    open: StageNow | None
    """The stage that is open, with who answered and who is missing."""
    stopped_index: int | None
    stopped: str
    """Why the open stage asks for no more rounds."""
    stages: tuple[StageLine, ...]
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
        stages=tuple(stage_line(stage, fleet.stage) for stage in found[:SHOWN]),
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


def stage_line(stage: StageFacts, now: StageNow | None) -> StageLine:
    """Return a stage as it stands in a list."""
    is_open = now is not None and now.number == stage.stage
    answered = len(now.answered) if now and is_open else stage.answered or 0
    missing = len(now.missing) if now and is_open else (stage.expected or 0) - answered
    return StageLine(
        stage=stage.stage,
        class_names=stage.class_names,
        opened_index=stage.opened_index,
        opened_ns=stage.opened_ns,
        opened_by=stage.opened_by,
        closed_index=stage.closed_index,
        closed_ns=stage.closed_ns,
        closed_because=stage.closed_because or "",
        answered=answered,
        expected=answered + missing,
        contributions=stage.contributions,
        contributors=stage.contributors,
        samples=stage.samples,
        rounds=stage.rounds,
        gave=stage.gave,
        without=stage.without,
    )


def _title(fleet: FleetNow, found: list[StageFacts]) -> str:
    if fleet.stopped_rounds is not None and fleet.stage is not None:
        return f"Stage {fleet.stage.number} is open, and its rounds have stopped."
    if fleet.stage is not None:
        return open_title(fleet.stage)
    if not found:
        return "No stage was opened yet: say which classes the fleet is to learn."
    return f"No stage is open; stage {found[0].stage} was the last one."
