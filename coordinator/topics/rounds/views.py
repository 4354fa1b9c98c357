"""Rounds, as the command line shows them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.rounds.entries import CohortContinued, RoundOpened
from fleetledger.coordinator.topics.rounds.state import RoundFacts, SeenInRound
from fleetledger.schemas.command_report import Column
from fleetledger.schemas.values import DeviceId

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class RoundRow:
    """A round of training: who was asked, what counted, what came of it."""

    number: Annotated[int, Column("round")]
    stage: Annotated[int, Column("stage")]
    round_of_stage: Annotated[int, Column("of stage")]
    phase: Annotated[str, Column("phase", of="phase_told")]
    follows: int | None
    """The round whose answers a later phase goes on from."""
    asked: Annotated[int, Column("asked")]
    counted: Annotated[int | None, Column("counted")]
    missing: Annotated[int | None, Column("missing")]
    images: Annotated[int | None, Column("samples")]
    drift: Annotated[float | None, Column("drift", "{:.3f}".format)]
    """Mean distance of the answers from their mean, relative to the length of the step."""
    bytes_down: Annotated[int, Column("kB down/up", of="kilobytes")]
    """The weights that each device of the cohort was given."""
    bytes_up: int | None
    """The mean size of the answers, late ones among them; None before the first."""
    state: Annotated[str, Column("state")]
    looking: Annotated[int, Column("only looked", int, sparse=True)]
    """Devices that were asked only to look at their images."""
    seen: Annotated[str, Column("what they saw", sparse=True)]
    """What devices saw that looked, in words; empty where none did."""

    @property
    def phase_told(self) -> str:
        """The phase, and the round whose answers it goes on from."""
        return self.phase if self.follows is None else f"{self.phase}, after {self.follows}"

    @property
    def kilobytes(self) -> str:
        """Size of the weights that each device was given, and of an answer."""
        up = "-" if self.bytes_up is None else f"{self.bytes_up / 1000:.0f}"
        return f"{self.bytes_down / 1000:.0f}/{up}"


@dataclass(frozen=True)
class DeclinedRow:
    """A device that gave no answer to a round, and said why."""

    round: Annotated[int, Column("round")]
    device: Annotated[str, Column("device")]
    reason: Annotated[str, Column("why")]


def rounds(home: Path) -> list[RoundRow]:
    """Return the rounds, oldest first."""
    with ledger_of(home) as ledger, ledger.snapshot():
        facts = state_of(ledger).rounds.facts
    return [
        RoundRow(
            number=row.number,
            stage=row.stage,
            round_of_stage=row.round_of_stage,
            phase=row.phase,
            follows=row.follows,
            asked=row.asked,
            counted=row.counted,
            missing=row.missing,
            images=row.samples,
            drift=row.drift,
            bytes_down=row.weights_bytes,
            bytes_up=round(row.answers_bytes / row.answers) if row.answers else None,
            state=_round_state(row),
            looking=row.looking,
            seen=_seen(row.seen),
        )
        for row in facts.values()
    ]


@dataclass(frozen=True)
class RoundInProgress:
    """A round that has not closed: whom it asked, and who answered."""

    number: int
    opened_index: int
    opened_ns: int
    latest_ns: int
    """When it closes with what came."""
    phase: str
    asked: tuple[str, ...]
    answered: frozenset[str]


def open_round(ledger: LedgerReader) -> RoundInProgress | None:
    """Return the round that is open; None where none is."""
    rounds = state_of(ledger).rounds
    current = rounds.current
    if current is None or current.closed is not None or current.failed is not None:
        return None
    opened = current.opened
    return RoundInProgress(
        opened.number,
        current.opened_index,
        rounds.facts[opened.number].opened_ns,
        current.opened_ns + round(opened.deadline_seconds * _SECOND_NS),
        opened.phase,
        opened.cohort,
        frozenset(current.heard),
    )


def opening(ledger: LedgerReader, index: int) -> RoundOpened:
    """Return what the entry of a round's opening says, with all devices that the round asks."""
    entries = ledger.entries(index)
    opened = RoundOpened.model_validate(next(entries).body)
    following = takewhile(lambda entry: entry.kind == CohortContinued.kind, entries)
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


def stopped(home: Path) -> str | None:
    """Return why the open stage asks for no more rounds; None where nothing has stopped it."""
    with ledger_of(home) as ledger, ledger.snapshot():
        found = stopped_in(ledger)
    return None if found is None else found[1]


def declined(home: Path) -> list[DeclinedRow]:
    """Return who gave no answer to rounds and said why, oldest first."""
    with ledger_of(home) as ledger:
        return [
            DeclinedRow(one.body["round"], str(one.device), one.body["reason"])
            for one in ledger.find(NothingReported)
            if one.body["round"] is not None and one.body["reason"]
        ]


def _round_state(row: RoundFacts) -> str:
    """Return the state, with the reason where nothing came of the round."""
    bare = row.state not in {"came to nothing", "failed"}
    return row.state if bare else f"{row.state}: {row.reason}"


def _seen(found: SeenInRound) -> str:
    """Return what devices saw in a round; nothing where none looked."""
    if not found.times:
        return ""
    told = f"entropy {found.entropy / found.images:.3f} on {count_of(found.times)}"
    begins = ", ".join(sorted(found.begins))
    return f"{told}; new task: {begins}" if begins else told
