"""Stages and rounds as people follow them: who gave, who has nothing, what came of each round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.contributions.state import COUNTS
from fleetledger.coordinator.topics.rounds.state import RoundFacts
from fleetledger.coordinator.topics.rounds.views import without_data
from fleetledger.runtime.command_report import Column
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.cohorts import is_cohort


@dataclass(frozen=True)
class StageFacts:
    """A stage, and what was given for it."""

    stage: Annotated[int, Column("stage")]
    class_names: Annotated[tuple[str, ...], Column("classes", ", ".join)]
    opened_index: int
    opened_ns: int
    opened_by: Annotated[str, Column("opened", "by {}".format)]
    closed_index: int | None
    closed_ns: int | None
    closed_because: Annotated[str | None, Column("closed", of="closed")]
    answered: int
    """Devices that had answered when it closed; none while it is open."""
    expected: int
    contributions: Annotated[int, Column("contributions")]
    """Parts in the sum, and answers to rounds."""
    contributors: int
    samples: int
    rounds: int
    gave: int
    """Devices that gave something, whatever became of it."""
    without: int
    """Devices that said that they have nothing, and gave nothing."""

    @property
    def closed(self) -> str:
        """Why it closed, and how many had answered."""
        if self.closed_because is None:
            return "open"
        answered = f"{self.answered} of {count_of(self.expected, 'device')} answered"
        return f"{self.closed_because}; {answered}"

    @property
    def asked(self) -> int:
        """How many devices could answer, those that came later among them."""
        return max(self.expected, self.gave + self.without)

    @property
    def late(self) -> int:
        """How many answered after it had closed."""
        return 0 if self.closed_index is None else max(0, self.gave + self.without - self.answered)


def all_stages(ledger: LedgerReader) -> list[StageFacts]:
    """Return the stages, oldest first."""
    return _facts(ledger, sorted(state_of(ledger).stages.by_number))


def newest_stages(ledger: LedgerReader, before: int, limit: int) -> list[StageFacts]:
    """Return stages below one, newest first."""
    numbers = sorted(number for number in state_of(ledger).stages.by_number if number < before)
    return _facts(ledger, numbers[::-1][:limit])


def one_stage(ledger: LedgerReader, stage: int) -> StageFacts | None:
    """Return a stage; None where there is none."""
    return next(iter(_facts(ledger, [stage])), None)


def _facts(ledger: LedgerReader, numbers: list[int]) -> list[StageFacts]:
    state = state_of(ledger)
    found = []
    for number in numbers:
        stage = state.stages.by_number.get(number)
        if stage is None:
            continue
        given = state.contributions.given_in(number)
        counts = given.sums.counts
        found.append(
            StageFacts(
                stage=number,
                class_names=stage.class_names,
                opened_index=stage.opened_index,
                opened_ns=stage.asked_ns,
                opened_by=stage.opened_by,
                closed_index=stage.closed_index,
                closed_ns=stage.closed_ns,
                closed_because=stage.closed_because,
                answered=stage.answered or 0,
                expected=stage.expected or 0,
                contributions=counts.count,
                contributors=sum(
                    not one.by_end.keys().isdisjoint({*COUNTS, "summed"})
                    for device, one in given.devices.items()
                    if not is_cohort(device)
                ),
                samples=counts.samples,
                rounds=sum(one.stage == number for one in state.rounds.facts.values()),
                gave=sum(not is_cohort(device) for device in given.devices),
                without=len(without_data(state, number).keys() - given.devices.keys()),
            )
        )
    return found


@dataclass(frozen=True)
class GivenRow:
    """What a device gave for a stage."""

    device: str
    parts: int
    samples: int
    payload_bytes: int
    newest_index: int
    state: str
    """`held` where a part of it is in the sum; of rounds `answer`; else what became of one."""


def stage_contributions(ledger: LedgerReader, stage: int, after: int, limit: int) -> list[GivenRow]:
    """Return what each device gave for a stage, the most first, from a place on."""
    found = [
        GivenRow(
            device=device,
            parts=counts.count,
            samples=counts.samples,
            payload_bytes=sum(one.payload_bytes for one in sums.by_end.values()),
            newest_index=sums.newest,
            state=next((end for end in COUNTS if end in sums.by_end), min(sums.by_end)),
        )
        for device, sums in state_of(ledger).contributions.given_in(stage).devices.items()
        for counts in [sums.counts]
    ]
    return sorted(found, key=lambda row: (-row.samples, row.device))[after : after + limit]


def nothing_for(ledger: LedgerReader, stage: int, limit: int) -> list[AnswerRow]:
    """Return who had nothing for a stage, or could not, the newest first."""
    state = state_of(ledger)
    gave = state.contributions.given_in(stage).devices
    others = [at for device, at in without_data(state, stage).items() if device not in gave]
    return [_answer(one) for one in ledger.at(sorted(others, reverse=True)[:limit])]


def rounds_of(ledger: LedgerReader, stage: int, before: int, limit: int) -> list[RoundFacts]:
    """Return rounds of a stage below one, newest first."""
    found = reversed(state_of(ledger).rounds.facts.values())
    return [one for one in found if one.stage == stage and one.number < before][:limit]


@dataclass(frozen=True)
class AnswerRow:
    """What a device gave in a round, or that it has nothing."""

    device: str
    index: int | None = None
    """The entry with what it said; None where nothing came."""
    state: str = ""
    """As of a contribution; `nothing` where it gave none."""
    samples: int = 0
    payload_bytes: int = 0
    reason: str = ""


def answers_to(ledger: LedgerReader, number: int) -> dict[str, AnswerRow]:
    """Return what came of each device that was asked in a round, by its name."""
    known = state_of(ledger).rounds.by_device.values()
    indices = (of.answers[number].index for of in known if number in of.answers)
    return {str(one.device): _answer(one) for one in ledger.at(sorted(indices))}


def counted_in(
    ledger: LedgerReader, indices: Iterable[int], staleness: Mapping[Any, int]
) -> tuple[AnswerRow, ...]:
    """Return answers that count in an asynchronous round, with the age of their weights."""
    found = []
    for entry in ledger.at(sorted(indices)):
        age, began = staleness.get(str(entry.index), 0), entry.body["part"]["round"]["number"]
        why = f"began in round {began}, {count_of(age, 'version')} ago" if age else ""
        found.append(replace(_answer(entry), state="counts", reason=why))
    return tuple(found)


def _answer(entry: Entry) -> AnswerRow:
    device, body = str(entry.device), read_entry(entry.kind, entry.body)
    if isinstance(body, ContributionAccepted):
        samples, size = sum(body.part.samples.values()), body.part.payload_bytes
        return AnswerRow(device, entry.index, body.came, samples, size, "")
    return AnswerRow(device, entry.index, "nothing", 0, 0, entry.body["nothing"]["reason"])
