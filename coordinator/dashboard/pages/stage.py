"""Who gave something for a stage, who is missing, when and why it opened and closed, its rounds."""

from __future__ import annotations

from dataclasses import replace

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.pages.stages import as_it_stands, open_title
from fleetledger.coordinator.dashboard.sources import (
    Asked,
    NotThereError,
    Sources,
    count_of,
    number_in_path,
)
from fleetledger.coordinator.reports import stages
from fleetledger.coordinator.reports.answers import FleetNow
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.stages import AnswerRow, GivenRow, StageFacts
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.cohorts.views import cohort_sentences
from fleetledger.coordinator.topics.rounds.state import RoundFacts
from fleetledger.transport.pages.words import plural

SHOWN = 40
"""Devices, or rounds, of a page."""
_ALL = 2**62


class StagePage(PageModel):
    """A stage."""

    stage: StageFacts
    is_open: bool
    stopped_index: int | None
    stopped: str
    missing: tuple[str, ...]
    """Who has not answered, while it is open."""
    wait: Wait | None
    """What closes it, while it is open."""
    cohorts: tuple[str, ...]
    """What its masked cohorts wait for, a sentence each."""
    before: int | None
    after: int | None
    given: tuple[GivenRow, ...]
    most_samples: int
    """That one device gave."""
    more_given: int | None
    nothing: tuple[AnswerRow, ...]
    rounds: tuple[RoundFacts, ...]
    older_rounds: int | None


def read(sources: Sources, asked: Asked) -> StagePage:
    """Return a stage; raise `NotThereError` where there is none."""
    ledger, number = sources.ledger, number_in_path(asked, "stage", "stage")
    found = stages.one_stage(ledger, number)
    if found is None:
        raise NotThereError(f"There is no stage {number}; /stages lists those that there are.")
    fleet = fleet_now(ledger, sources.live, sources.now_ns)
    now = fleet.stage if fleet.stage is not None and fleet.stage.number == number else None
    place = count_of(asked.query.get("given")) or 0
    given = stages.stage_contributions(ledger, number, place, SHOWN + 1)
    before = count_of(asked.query.get("before")) or _ALL
    rounds = stages.rounds_of(ledger, number, before, SHOWN + 1)
    stopped = fleet.stopped_rounds if now is not None else None
    last = state_of(ledger).stages.current or 0
    return StagePage(
        title=_title(found, fleet, is_open=now is not None),
        stage=as_it_stands(found, fleet.stage),
        is_open=now is not None,
        stopped_index=stopped.index if stopped else None,
        stopped=stopped.reason if stopped else "",
        missing=tuple(map(str, now.missing)) if now is not None else (),
        wait=None if now is None else now.wait,
        cohorts=tuple(cohort_sentences(state_of(ledger), number)),
        before=number - 1 if number > 1 else None,
        after=number + 1 if number < last else None,
        most_samples=sum(row.samples for row in stages.stage_contributions(ledger, number, 0, 1)),
        given=tuple(given[:SHOWN]),
        more_given=place + SHOWN if len(given) > SHOWN else None,
        nothing=tuple(stages.nothing_for(ledger, number, SHOWN)),
        rounds=tuple(map(replace, rounds[:SHOWN])),  # copies: those of the state go on
        older_rounds=rounds[SHOWN - 1].number if len(rounds) > SHOWN else None,
    )


def _title(found: StageFacts, fleet: FleetNow, *, is_open: bool) -> str:
    if is_open and fleet.stopped_rounds is not None:
        return f"Stage {found.stage} is open, and its rounds have stopped."
    if is_open and fleet.stage is not None:
        return open_title(fleet.stage)
    taught = plural(len(found.class_names), "class", "classes")
    answered = f"{found.answered} of {plural(found.expected, 'device')} answered"
    return f"Stage {found.stage} is closed: it asked for {taught}, and {answered}."
