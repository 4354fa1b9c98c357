"""Rounds, as the command line shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.rounds.entries import CohortContinued, RoundOpened
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.runtime.command_report import Column
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class DeclinedRow:
    """A device that gave no answer to a round, and said why."""

    round: Annotated[int, Column("round")]
    device: Annotated[str, Column("device")]
    reason: Annotated[str, Column("why")]


def open_round(ledger: LedgerReader) -> Round | None:
    """Return the round that is open; None where none is."""
    current = state_of(ledger).rounds.current
    if current is None or current.closed is not None or current.failed is not None:
        return None
    return current


def opening(ledger: LedgerReader, index: int) -> RoundOpened:
    """Return what the entry of a round's opening says, with all devices that the round asks."""
    entries = ledger.entries(index)
    opened = RoundOpened.model_validate(next(entries).body)
    following: Iterable[Entry] = takewhile(lambda e: e.kind == CohortContinued.kind, entries)
    if opened.buffering is not None:
        following = ledger.find(CohortContinued, start=index, where={"number": opened.number})
    parts = [CohortContinued.model_validate(entry.body) for entry in following]
    cohort = (*opened.cohort, *(device for part in parts for device in part.cohort))
    observers = (*opened.observers, *(device for part in parts for device in part.observers))
    return opened.model_copy(update={"cohort": cohort, "observers": observers})


def without_data(state: State, stage: int) -> dict[DeviceId, int]:
    """Return who said that there is nothing to give for a stage, or for a round of it.

    Each with the newest entry that says so.
    """
    numbers = [number for number, one in state.rounds.facts.items() if one.stage == stage]
    found = state.rounds.nothing_in(numbers)
    for device, given in state.contributions.by_device.items():
        if stage in given.nothing:
            found[device] = max(given.nothing[stage], found.get(device, -1))
    return found


def stopped_in(ledger: LedgerReader) -> tuple[int, str] | None:
    """Return by which entry and why the open stage asks for no more rounds, where it does not."""
    found = state_of(ledger).rounds.void.stopped
    return None if found is None else (found.index, found.reason)


def declined(ledger: LedgerReader) -> list[DeclinedRow]:
    """Return who gave no answer to rounds and said why, oldest first."""
    return [
        DeclinedRow(nothing["round"], str(one.device), nothing["reason"])
        for one in ledger.find(NothingReported)
        for nothing in [one.body["nothing"]]
        if nothing["round"] is not None and nothing["reason"]
    ]
