"""The rounds of a run as they end, each kept on disk before the next one is over.

What the ledger knows of a round is in the state, and in the entries that it names. What it cannot
know, the seconds on the wall and the accuracy, is measured when the round has ended, and kept in
`rounds.jsonl`, so that a run that is gone on with still has it. A round of several phases is one
record, with the loss of its first phase and the accuracy after its last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.rounds.state import RoundFacts
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.network_meter import NetworkMeter, PartsAccuracy
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.run.durable import append_line, whole_lines
from fleetledger.simulator.scenario.trainer import trainer_of

Measure = Callable[[str, dict[str, Any], Digest], float]
"""Gives the accuracy of a network by its method and settings, with a round's weights."""


class KeptRound(Strict):
    """A line of `rounds.jsonl`: a round's number in the ledger and what is told of it.

    Of a round of several phases it is the number of the last.
    """

    round: int
    stage: int
    record: RoundRecord


class _Training(NamedTuple):
    """What the answers that count tell: the loss is their mean, weighted by samples."""

    loss: float | None = None
    steps: int | None = None
    seconds: float | None = None
    """Of the devices' computing."""


class RoundLog:
    """Follows the rounds of a coordinator's state; `look` takes in what is new.

    What `state` has of them is no news.
    """

    def __init__(
        self,
        ledger: LedgerReader,
        state: State,
        path: Path,
        every: int,
        tell: Callable[[RoundRecord], None] = lambda _record: None,
    ) -> None:
        self.compared: dict[int, PartsAccuracy] = {}
        """By number of a round, what its answers held, where somebody measures it."""
        self.done = (0, 0)
        """Rounds of the newest stage that are over, and how many it has."""
        self._ledger = ledger
        self._path = path
        self._every = every
        self._tell = tell
        self._next = 1
        """The round that is to end next."""
        self._former = sum(map(_is_over, state.rounds.facts.values()))
        self._began: dict[int, float] = {}
        """When rounds were first seen, by number."""
        self._kept = {kept.round: kept for kept in _read(path)}

    def look(self, state: State, measure: Measure) -> bool:
        """Take in what is new; return whether a round has ended now."""
        ended = False
        while (facts := state.rounds.facts.get(self._next)) is not None:
            self._began.setdefault(self._next, time.perf_counter())
            if not _is_over(facts):
                break
            self._end(state, facts, measure)
            ended |= self._next > self._former
            self._next += 1
        return ended

    def records(self, stages: Sequence[int]) -> tuple[RoundRecord, ...]:
        """Return the rounds of some stages of the ledger, in order."""
        kept = [self._kept[number] for number in sorted(self._kept)]
        return tuple(item.record for item in kept if item.stage in stages)

    def _end(self, state: State, facts: RoundFacts, measure: Measure) -> None:
        (opened,) = self._ledger.at([facts.opened_index])
        *_, network = self._ledger.find(NetworkImported, stop=facts.opened_index)
        lineage, averaged = NetworkImported.model_validate(network.body), self._averaged(facts)
        self.done = (facts.round_of_stage, opened.body["rounds_of_stage"])
        phases = lineage.round_phases
        if facts.number in self._kept or facts.phase not in phases:  # or before or after a stage's
            return
        if averaged is not None and facts.phase != phases[-1]:
            return
        first = facts
        while first.follows is not None:
            first = state.rounds.facts[first.follows]
        seconds = time.perf_counter() - self._began[first.number]
        number = Counter(kept.stage for kept in self._kept.values())[facts.stage] + 1
        is_last = self.done[0] == self.done[1] - len(lineage.closing_phases)
        accuracy = None
        if averaged is not None and (number % self._every == 0 or is_last):
            accuracy = measure(lineage.method, lineage.settings, averaged.weights.digest)
        answers = self._answers(averaged)
        trained = answers if first is facts else self._answers(self._averaged(first))
        told = _training([told for told in trained.values() if told] if answers else [])
        parts = self.compared.pop(facts.number, None)
        record = RoundRecord(
            number=number,
            asked=facts.asked,
            counted=self._counted(answers),
            seconds=seconds,
            accuracy=accuracy,
            ensemble_accuracy=None if parts is None else parts.ensemble,
            mean_accuracy=None if parts is None else parts.mean,
            client_drift=None if averaged is None else averaged.client_drift,
            loss=told.loss,
            steps=told.steps,
            training_seconds=told.seconds,
            fleet_seconds=self._fleet_seconds(state, facts),
        )
        kept = KeptRound(round=facts.number, stage=facts.stage, record=record)
        self._kept[kept.round] = kept
        append_line(self._path, kept.model_dump_json())
        self._tell(record)

    def _fleet_seconds(self, state: State, facts: RoundFacts) -> float | None:
        """Return when new weights came, by the fleet's clock; None where that stands still."""
        if facts.averaged_index is None:
            return None
        (averaged,) = self._ledger.at([facts.averaged_index])
        opened_ns = state.stages.by_number[facts.stage].opened_ns
        return max(0, averaged.time_ns - opened_ns) / 1e9 or None

    def _answers(self, averaged: WeightsAveraged | None) -> dict[int, dict[str, Any] | None]:
        """Return what answers in a mean tell, by entry; None of a sum of a cohort."""
        return {} if averaged is None else self._ledger.values(averaged.inputs, "part.round")

    def _counted(self, answers: Mapping[int, object]) -> int:
        """Return how many devices' answers are in a mean; those behind masks are in a sum."""
        sums = [index for index, told in answers.items() if told is None]
        members = self._ledger.values(sums, "members") if sums else {}
        return len(answers) - len(sums) + sum(map(len, members.values()))

    def _averaged(self, facts: RoundFacts) -> WeightsAveraged | None:
        if facts.averaged_index is None:
            return None
        (entry,) = self._ledger.at([facts.averaged_index])
        return WeightsAveraged.model_validate(entry.body)


def _training(told: Sequence[dict[str, Any]]) -> _Training:
    """Return what answers tell together."""
    if not told:
        return _Training()
    losses = [(one["loss"], one["samples"]) for one in told if one["loss"] is not None]
    samples = sum(number for _, number in losses)
    return _Training(
        sum(loss * number for loss, number in losses) / samples if samples else None,
        sum(one["steps"] for one in told),
        sum(one["seconds"] for one in told),
    )


class RoundWatch:
    """Measures the rounds of a run as they end, and tells whoever watches, who may stop it then."""

    def __init__(
        self, prepared: Prepared, blobs: Blobs, state: State, folder: Path, watch: Watch
    ) -> None:
        self.meter = NetworkMeter(prepared)
        self.log = RoundLog(
            blobs.ledger,
            state,
            folder / "rounds.jsonl",
            prepared.scenario.evaluation.every_rounds,
            watch.round_ended,
        )
        self._prepared = prepared
        self._blobs = blobs
        self._watch = watch

    def look(self, state: State, stage: StagePlan) -> None:
        """Take in what is new of a stage's rounds, where a network is trained."""
        if trainer_of(self._prepared.scenario) is None:
            return
        if self.log.look(state, partial(self._accuracy, stage)):
            self._watch.round(*self.log.done)

    def _accuracy(
        self, stage: StagePlan, method: str, settings: dict[str, Any], weights: Digest
    ) -> float:
        seen = self._prepared.plan.seen(stage.number)
        return self.meter.accuracy(method, settings, self._blobs.get(weights), seen)


def _is_over(facts: RoundFacts) -> bool:
    return facts.state not in ("open", "closed")


def _read(path: Path) -> Iterator[KeptRound]:
    for line in whole_lines(path):
        yield KeptRound.model_validate_json(line)
