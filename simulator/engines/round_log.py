"""The rounds of a run as they end, each kept on disk before the next one is over.

What the ledger knows of a round is read from it. What it cannot know, the seconds on the wall and
the accuracy, is measured when the round's entry appears, and kept in `rounds.jsonl`, so that a run
that is gone on with still has it. A round of several phases is one record, with the loss of its
first phase and the accuracy after its last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from fleetledger.coordinator.core.entry import EntryBody, NewEntry
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundClosed,
    RoundFailed,
    RoundOpened,
    WeightsAveraged,
)
from fleetledger.schemas.message import Strict
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.network_meter import PartsAccuracy
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.run.durable import append_line, whole_lines

Measure = Callable[[str, dict[str, Any], Digest], float]
"""Gives the accuracy of a network by its method and settings, with a round's weights."""

_OF_ROUNDS = frozenset(
    body.kind
    for body in (
        NetworkImported,
        RoundOpened,
        CohortContinued,
        RoundClosed,
        RoundFailed,
        WeightsAveraged,
    )
)


class KeptRound(Strict):
    """A line of `rounds.jsonl`: a round's number in the ledger and what is told of it.

    Of a round of several phases it is the number of the last.
    """

    round: int
    stage: int
    record: RoundRecord


@dataclass(eq=False)
class _Open:
    """A round that is not over."""

    opened: RoundOpened
    began: float
    asked: int
    """Devices of the cohort."""
    answers: dict[int, _Answer] = field(default_factory=dict)
    """By index in the ledger."""
    phase_before: _Ended | None = None


class _Answer(NamedTuple):
    """What a device told of its training."""

    samples: int
    steps: int
    seconds: float
    loss: float | None


class _Told(NamedTuple):
    """An answer, and the round that it is to."""

    round: int
    answer: _Answer


@dataclass(frozen=True)
class _Ended:
    """What a later phase of a round has to know of its first."""

    began: float
    loss: float | None = None
    steps: int | None = None
    seconds: float | None = None
    """Of the devices' computing."""


class RoundLog:
    """Follows a ledger; `look` takes in what is new."""

    def __init__(self, ledger: LedgerReader, path: Path, every: int) -> None:
        self.compared: dict[int, PartsAccuracy] = {}
        """By number of a round, what its answers held, where somebody measures it."""
        self.done = (0, 0)
        """Rounds of the newest stage that are over, and how many it has."""
        self._ledger = ledger
        self._path = path
        self._every = every
        self._at = 0
        self._heard: list[tuple[int, EntryBody | _Told]] = []
        """What was committed since the last look, if that is told: it need not be read again."""
        self._former = ledger.size
        """What a former process left is taken in again, and is no news."""
        self._open: dict[int, _Open] = {}
        self._ended: dict[int, _Ended] = {}
        """Phases that others follow, by number; of the newest round."""
        self._network: NetworkImported | None = None
        self._kept = {kept.round: kept for kept in _read(path)}

    def look(self, measure: Measure) -> bool:
        """Take in the new entries; return whether a round has ended now."""
        ended = False
        for index, body in self._news():
            if isinstance(body, _Told):
                if body.round in self._open:
                    self._open[body.round].answers[index] = body.answer
            else:
                over = self._take(body, measure)
                ended |= over and index >= self._former
        return ended

    def committed(self, first: int, entries: Sequence[NewEntry]) -> None:
        """Be told of entries that were committed, which `look` then need not read."""
        for index, entry in enumerate(entries, first):
            body = entry.body
            if isinstance(body, ContributionAccepted):
                said = body.answer
                if said is not None and body.round is not None:
                    told = _Answer(said.samples, said.steps, said.seconds, said.loss)
                    self._heard.append((index, _Told(body.round, told)))
            elif body.kind in _OF_ROUNDS:
                self._heard.append((index, body))

    def _news(self) -> Iterator[tuple[int, EntryBody | _Told]]:
        """Yield what there is of rounds since the last look."""
        heard, self._heard = self._heard, []
        start, self._at = self._at, self._ledger.size
        # Unchecked: this process has just committed them, or checked them when it began.
        rows = self._ledger.rows(start, heard[0][0] if heard else self._at)
        for index, _, kind, _, _, body, *_ in rows:
            if kind == ContributionAccepted.kind:
                told = _told(from_json(body))
                if told is not None:
                    yield index, told
            elif kind in _OF_ROUNDS:
                yield index, read_entry(kind, from_json(body))
        yield from heard

    def records(self, stages: tuple[int, ...]) -> tuple[RoundRecord, ...]:
        """Return the rounds of some stages of the ledger, in order."""
        kept = [self._kept[number] for number in sorted(self._kept)]
        return tuple(item.record for item in kept if item.stage in stages)

    def _take(self, body: EntryBody, measure: Measure) -> bool:
        match body:
            case NetworkImported():
                self._network = body
            case RoundOpened():
                before = self._ended.pop(body.follows or 0, None)
                began, asked = time.perf_counter(), len(body.cohort)
                self._open[body.number] = _Open(body, began, asked, phase_before=before)
            case CohortContinued():
                self._open[body.number].asked += len(body.cohort)
            case RoundClosed() if not body.counted:
                return self._end(self._open.pop(body.number))
            case RoundFailed():
                return self._end(self._open.pop(body.number))
            case WeightsAveraged():
                network, weights = self._lineage, body.weights.digest
                accuracy = partial(measure, network.method, network.settings, weights)
                return self._end(self._open.pop(body.number), body, accuracy)
        return False

    def _end(
        self,
        ended: _Open,
        averaged: WeightsAveraged | None = None,
        measure: Callable[[], float] | None = None,
    ) -> bool:
        opened = ended.opened
        self.done = (opened.round_of_stage, opened.rounds_of_stage)
        if opened.number in self._kept or not self._is_of_a_round(opened):
            return True
        own = _Ended(ended.began) if averaged is None else _ended(ended, averaged)
        first = ended.phase_before or own
        if averaged is not None and opened.phase != self._lineage.round_phases[-1]:
            self._ended = {opened.number: first}
            return True
        seconds = time.perf_counter() - first.began
        number = sum(kept.stage == opened.stage for kept in self._kept.values()) + 1
        wanted = number % self._every == 0 or self._is_last(opened)
        parts = self.compared.pop(opened.number, None)
        record = RoundRecord(
            number=number,
            asked=ended.asked,
            counted=0 if averaged is None else len(averaged.inputs),
            seconds=seconds,
            accuracy=measure() if wanted and measure is not None else None,
            ensemble_accuracy=None if parts is None else parts.ensemble,
            mean_accuracy=None if parts is None else parts.mean,
            client_drift=None if averaged is None else averaged.client_drift,
            loss=None if averaged is None else first.loss,
            steps=None if averaged is None else first.steps,
            training_seconds=None if averaged is None else first.seconds,
        )
        self._keep(KeptRound(round=opened.number, stage=opened.stage, record=record))
        return True

    @property
    def _lineage(self) -> NetworkImported:
        assert self._network is not None
        return self._network

    def _is_of_a_round(self, opened: RoundOpened) -> bool:
        """Whether it is a phase of a round, rather than one before or after a stage's rounds."""
        return opened.phase in self._lineage.round_phases

    def _is_last(self, opened: RoundOpened) -> bool:
        """Whether no round of the stage follows."""
        after = len(self._lineage.closing_phases)
        return opened.round_of_stage == opened.rounds_of_stage - after

    def _keep(self, kept: KeptRound) -> None:
        self._kept[kept.round] = kept
        append_line(self._path, kept.model_dump_json())


def _told(body: dict[str, Any]) -> _Told | None:
    """Return what the body of a contribution tells of training; None where it does not."""
    answer = body.get("answer")
    if answer is None:
        return None
    told = _Answer(answer["samples"], answer["steps"], answer["seconds"], answer["loss"])
    return _Told(body["round"], told)


def _ended(ended: _Open, averaged: WeightsAveraged) -> _Ended:
    """Return what the answers that count tell: the loss is their mean, weighted by samples."""
    answers = [ended.answers[index] for index in averaged.inputs if index in ended.answers]
    if not answers:
        return _Ended(ended.began)
    told = [(answer.loss, answer.samples) for answer in answers if answer.loss is not None]
    samples = sum(number for _, number in told)
    return _Ended(
        ended.began,
        sum(loss * number for loss, number in told) / samples if samples else None,
        sum(answer.steps for answer in answers),
        sum(answer.seconds for answer in answers),
    )


def _read(path: Path) -> Iterator[KeptRound]:
    for line in whole_lines(path):
        yield KeptRound.model_validate_json(line)
