"""Stages and reports, as the command line shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.stages.entries import TransitionReported
from fleetledger.runtime.command_report import Column
from fleetledger.runtime.count_words import count_of


@dataclass(frozen=True)
class ReportRow:
    """Something new that a device reported."""

    device: Annotated[str, Column("device")]
    text: Annotated[str, Column("report")]
    class_names: Annotated[tuple[str, ...], Column("unknown classes", ", ".join)]
    index: int


@dataclass(frozen=True)
class UnseenClasses:
    """Classes of a closed stage of which no device gave anything."""

    stage: int
    class_names: tuple[str, ...]
    index: int
    """Of the entry that closed it."""


def unseen_in(ledger: LedgerReader) -> UnseenClasses | None:
    """Return the new classes of the newest stage that nobody has images of, once it is closed."""
    state = state_of(ledger)
    number, classes = state.stages.current, state.classes
    index = None if number is None else state.stages.by_number[number].closed_index
    if number is None or index is None:
        return None
    given = state.contributions.given_in(number)
    seen = {classes.present(name) for name in given.classes.keys() | given.late}
    named = state.stages.by_number[number].class_names
    names = [
        name
        for name, first in zip(named, state.class_stages(named), strict=True)
        if first == number
    ]
    unseen = tuple(name for name in names if classes.present(name) not in seen)
    return UnseenClasses(number, unseen, index) if unseen else None


def reports_in(ledger: LedgerReader) -> list[ReportRow]:
    """Return what devices have reported as new since the newest stage was opened."""
    state = state_of(ledger)
    found = [
        (entry, TransitionReported.model_validate(entry.body))
        for entry in map(ledger.entry, state.stages.reported_since)
        if entry.device not in state.devices.retired
    ]
    return [
        ReportRow(
            str(entry.device), _report(body), tuple(sorted(body.transition.classes)), entry.index
        )
        for entry, body in found
    ]


def _report(body: TransitionReported) -> str:
    seen = body.transition.uncertainty
    if body.transition.why == "class name" or seen is None:
        return "new class folders"
    return (
        f"unsure about {count_of(seen.images, 'image')}: {seen.value:.3f}, "
        f"so far {seen.baseline:.3f} (model {seen.model_version})"
    )
