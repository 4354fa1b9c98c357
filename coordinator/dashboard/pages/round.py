"""Whom a round asked, what counted, who is missing and why, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, NotThereError, Sources, number_in_path
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports import stages
from fleetledger.coordinator.reports.stages import AnswerRow
from fleetledger.coordinator.topics.rounds.entries import Buffering
from fleetledger.coordinator.topics.rounds.state import RoundFacts, RoundsState
from fleetledger.coordinator.topics.rounds.views import opening
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.words import plural


class RoundPage(PageModel):
    """A round."""

    line: RoundFacts
    rounds_of_stage: int
    deadline_seconds: float
    weights: str
    result: str
    """Digest of the weights that it gave; empty where there are none."""
    aggregate: str
    remarks: tuple[str, ...]
    buffer: int | None
    """Answers that an asynchronous round takes; None of other rounds."""
    devices: tuple[AnswerRow, ...]
    """Those that were asked; `state` is what came of it, such as `counted` or `missing`. Of an
    asynchronous round those whose answers count come first, whichever round asked them."""
    norms: Mapping[int, float]
    """Length of the move of each answer in the mean, by its entry; empty where nobody measured."""
    cosines: Mapping[int, float | None]
    """Likewise the cosine of its move to the mean direction of the others."""
    observers: tuple[str, ...]
    before: int | None
    after: int | None


def read(sources: Sources, asked: Asked) -> RoundPage:
    """Return a round; raise `NotThereError` where there is none."""
    ledger, number = sources.ledger, number_in_path(asked, "number", "round")
    state = state_of(ledger)
    rounds = state.rounds.facts
    found = rounds.get(number)
    if found is None:
        raise NotThereError(f"There is no round {number}; the page of a stage lists its rounds.")
    opened = opening(ledger, found.opened_index)
    closed = _body(ledger, found.closed_index)
    averaged = _body(ledger, found.averaged_index)
    answers = stages.answers_to(ledger, number)
    devices = tuple(_device(name, answers.get(name), closed) for name in sorted(opened.cohort))
    if opened.buffering is not None:
        newest = state.rounds.by_number[number].answers.values() if not closed else ()
        counted = closed.get("counted", tuple(item.index for item in newest))
        told = (_asked(state.rounds, number, n, answers.get(n)) for n in sorted(opened.cohort))
        came = stages.counted_in(ledger, counted, closed.get("staleness", {}))
        here = {row.index for row in came}
        devices = (*came, *(row for row in told if row.index is None or row.index not in here))
    return RoundPage(
        title=_title(found, answers, opened.buffering),
        buffer=None if opened.buffering is None else opened.buffering.answers,
        line=replace(found),  # a copy: that of the state goes on
        rounds_of_stage=opened.rounds_of_stage,
        deadline_seconds=opened.deadline_seconds,
        weights=opened.weights.digest,
        result=averaged["weights"]["digest"] if averaged else "",
        aggregate=averaged.get("aggregate", ""),
        remarks=tuple(averaged.get("remarks", ())),
        norms=dict(zip(averaged.get("inputs", ()), averaged.get("norms", ()), strict=False)),
        cosines=dict(zip(averaged.get("inputs", ()), averaged.get("cosines", ()), strict=False)),
        devices=devices,
        observers=opened.observers,
        before=max((one for one in rounds if one < number), default=None),
        after=min((one for one in rounds if one > number), default=None),
    )


def _body(ledger: LedgerReader, index: int | None) -> Mapping[str, Any]:
    return {} if index is None else ledger.entry(index).body


def _title(found: RoundFacts, answers: Mapping[str, AnswerRow], buffering: Buffering | None) -> str:
    asked = plural(found.asked, "device")
    if buffering is not None and found.state == "open":
        return f"Round {found.number} is open, and takes {plural(buffering.answers, 'answer')}."
    if found.state == "open":
        return f"Round {found.number} is open: {len(answers)} of {asked} answered."
    if found.state in {"came to nothing", "failed"}:
        return f"Round {found.number} came to nothing: {found.reason or 'nobody answered'}."
    counted = f"{found.counted or 0} of {asked} counted"
    if buffering is not None:
        oldest = plural(found.staleness, "version") if found.staleness else ""
        counted = f"{plural(found.counted or 0, 'answer')} counted"
        counted += f", the oldest from weights {oldest} back" if oldest else ""
    if found.state == "averaged":
        drift = "" if found.drift is None else f", with a drift of {found.drift:.2f}"
        return f"Round {found.number} gave new weights: {counted}{drift}."
    return f"Round {found.number} is closed, and its answers are being averaged: {counted}."


def _device(name: str, answer: AnswerRow | None, closed: Mapping[str, Any]) -> AnswerRow:
    """Return what came of a device that the round asked."""
    refused = next((why for why, who in closed.get("refused", {}).items() if name in who), "")
    state = "refused" if answer is None and refused else _outcome(answer, closed)
    found = answer or AnswerRow(name)
    return replace(found, state=state, reason=refused or found.reason)


def _asked(rounds: RoundsState, number: int, name: DeviceId, answer: AnswerRow | None) -> AnswerRow:
    """Return what came of a device that an asynchronous round asked."""
    if answer is None:
        order = rounds.standing.get(name)
        trains = order is not None and order.number == number
        return AnswerRow(name, state="trains" if trains else "over")
    if answer.state == "nothing":
        return replace(answer, state="could not" if answer.reason else "nothing")
    if answer.state != "answer":
        return answer
    newest = () if rounds.current is None else rounds.current.answers
    counts = number in rounds.of(name).averaged or name in newest or name in rounds.waiting
    return replace(answer, state="counts in a later round" if counts else "left out")


def _outcome(answer: AnswerRow | None, closed: Mapping[str, Any]) -> str:
    if answer is None:
        return "missing" if closed else "waited for"
    if answer.state == "nothing":
        return "could not" if answer.reason else "nothing"
    if answer.state != "answer":
        return answer.state
    if not closed:
        return "answered"
    return "counted" if answer.index in closed["counted"] else "not counted"
