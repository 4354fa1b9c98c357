"""Contributions of devices with their classes, as people search for them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.old_and_new_classes import class_counts, first_stages
from fleetledger.coordinator.topics.cohorts.entries import CohortSummed
from fleetledger.coordinator.topics.contributions import entries as bodies
from fleetledger.coordinator.topics.contributions.state import (
    CountedPart,
    GivenAmount,
    GivenSums,
)
from fleetledger.coordinator.topics.contributions.views import why_aside
from fleetledger.runtime.command_report import Column
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId

STATES = {
    "held": "in the sum",
    "answer": "update to a round",
    "late": "late",
    "replaced": "replaced",
    "withdrawn": "withdrawn by the device",
    "retracted": "retracted",
    "masked": "behind masks",
    "summed": "in a cohort's sum",
    "unopened": "behind masks of a cohort that goes on without it",
    "lost": "behind masks of a cohort of which nothing came",
}
"""What became of contributions, in words."""
OF_COHORTS = frozenset({"masked", "summed", "unopened", "lost"})
"""States of what was given behind masks."""


@dataclass(frozen=True)
class ContributionFacts:
    """A contribution, with what became of it."""

    index: int
    time_ns: int
    device: str
    stage: int
    part: int
    revision: int
    state: str
    samples: int
    payload_bytes: int
    left_index: int | None
    """The entry by which it left the sum."""
    classes: dict[str, int]
    """Samples by class."""
    left_out: bool
    """Whether it is not in the sum for now: its device gave too much, or it is set aside."""
    set_aside: str
    """Why it is set aside, with figures and limits; empty where it is not."""


@dataclass(frozen=True)
class ContributionFilter:
    """Which contributions are asked for; None leaves it open."""

    device: str | None = None
    stage: int | None = None
    state: str | None = None
    model: int | None = None
    """A version that was made from them."""
    before: int = 2**62
    """Below which index."""


_ENDS = {
    bodies.ContributionAccepted.kind: "replaced",
    bodies.ContributionWithdrawn.kind: "withdrawn",
    bodies.ContributionRetracted.kind: "retracted",
}
"""What an entry that names a contribution makes of it, by its kind."""


def given(ledger: LedgerReader, wanted: ContributionFilter, limit: int) -> list[ContributionFacts]:
    """Return contributions, newest first."""
    state = state_of(ledger)
    if wanted == ContributionFilter(before=wanted.before):
        kinds = {bodies.ContributionAccepted.kind, CohortSummed.kind}
        entries = ledger.newest(limit, before=wanted.before, kinds=kinds)
    else:
        entries = list(ledger.at(_wanted(ledger, wanted)[::-1][:limit]))
    shown, counted = [entry.index for entry in entries], state.contributions.counted
    ends, aside = _ends(ledger, shown), counted.set_aside
    why = why_aside(ledger, {index: aside[index] for index in shown if index in aside})
    return [
        ContributionFacts(
            index=entry.index,
            time_ns=entry.time_ns,
            device=str(item.device),
            stage=item.key.stage,
            part=item.key.part,
            revision=revision,
            state=end,
            samples=sum(item.samples.values()),
            payload_bytes=item.payload_bytes,
            left_index=left_index,
            classes={str(name): count for name, count in item.samples.items()},
            left_out=not counted.is_counted(entry.index),
            set_aside=why.get(entry.index, ""),
        )
        for entry in entries
        for item, revision, came in [_given(state, entry)]
        for left_index, end in [ends.get(entry.index, (None, came))]
    ]


def _given(state: State, entry: Entry) -> tuple[CountedPart, int, str]:
    """Return what an entry says was given, its revision, and as what it came."""
    body = read_entry(entry.kind, entry.body)
    if isinstance(body, CohortSummed):
        return bodies.counted_sum(body), 0, "held" if body.round is None else "answer"
    assert isinstance(body, bodies.ContributionAccepted)
    device = DeviceId(str(entry.device))
    return bodies.counted_of(body.part, device), body.part.revision, _came(state, device, body)


def _came(state: State, device: DeviceId, body: bodies.ContributionAccepted) -> str:
    if body.part.cohort is None:
        return body.came
    cohort = state.cohorts.by_number[body.part.cohort.number]
    if cohort.step == "ended" and cohort.opened and cohort.has(device):
        return "lost"
    if cohort.step == "ended" or not cohort.has(device):
        return "unopened"
    return "summed" if cohort.step == "summed" else "masked"


def _wanted(ledger: LedgerReader, wanted: ContributionFilter, start: int = 0) -> list[int]:
    """Return the entries of contributions that are asked for, from one on, oldest first."""
    state = state_of(ledger)
    counted, where = state.contributions.counted, dict[str, object]()
    stop = wanted.before
    if wanted.stage is not None:
        where["part.key.stage"], opened = wanted.stage, state.stages.by_number.get(wanted.stage)
        start = start if opened is None else max(start, opened.opened_index)
        stop = min(stop, state.contributions.given_in(wanted.stage).sums.newest + 1)
    if wanted.state in {"answer", "late"}:
        where["late"] = wanted.state == "late"
    if wanted.state in OF_COHORTS:
        where["part.payload_kind"] = "masked"
    found = ledger.indices(
        bodies.ContributionAccepted, device=wanted.device, start=start, stop=stop, where=where
    )
    if wanted.state in OF_COHORTS:
        return [one.index for one in ledger.at(found) if _given(state, one)[2] == wanted.state]
    if wanted.state == "answer" and state.cohorts.by_number:
        hidden = ledger.indices(
            bodies.ContributionAccepted,
            start=start,
            stop=stop,
            where={"part.payload_kind": "masked"},
        )
        found = sorted(set(found).difference(hidden))
    found = sorted((*found, *_sums_of(state, wanted, range(start, stop))))
    if wanted.model is not None:
        made = _made_of(ledger, wanted.model)
        found = [index for index in found if index in made]
    if wanted.state == "held":
        return [index for index in found if index in counted]
    if wanted.state not in {None, "late"}:
        ends = _ends(ledger)
        if wanted.state == "answer":
            return [index for index in found if index not in counted and index not in ends]
        return [index for index in found if index in ends and ends[index][1] == wanted.state]
    return found


def _sums_of(state: State, wanted: ContributionFilter, places: range) -> Iterator[int]:
    """Yield the entries of cohorts' sums that are asked for."""
    for cohort in state.cohorts.by_number.values():
        at, of = cohort.summed_index, cohort.body
        fits = wanted.device in {None, of.device} and wanted.stage in {None, of.stage}
        if at is not None and at in places and fits and wanted.state != "late":
            yield at


def _ends(ledger: LedgerReader, of: Sequence[int] | None = None) -> dict[int, tuple[int, str]]:
    """Return by which entry some contributions left the sum, or all that did, and how."""
    replaced = ledger.replaced(of)
    dropped = state_of(ledger).contributions.dropped
    ends = {index: (at, "withdrawn") for index, at in dropped.items()}
    return ends | {index: (at, _ENDS[kind]) for index, at, kind in replaced}


def _made_of(ledger: LedgerReader, version: int) -> dict[int, CountedPart]:
    """Return what a model of statistics was solved of: what its sum had at its size."""
    state = state_of(ledger)
    model, counted = state.models.by_version.get(version), state.contributions.counted
    if model is None or model.imported is not None:
        return {}
    size, lineage = model.solved.ledger_size, model.solved.lineage
    left = [index for index, (at, _) in _ends(ledger).items() if index < size <= at]
    gone = {entry.index: _given(state, entry)[0] for entry in ledger.at(sorted(left))}
    outside = _outside(ledger, size)
    return {
        index: item
        for index, item in (*counted.items(), *gone.items())
        if index < size and item.lineage == lineage and index not in outside
    }


def _outside(ledger: LedgerReader, size: int) -> set[int]:
    """Return what was left out of the sum or set aside after so many entries, if it was held."""
    out, aside = set[int](), set[int]()
    kinds = bodies.ContributionsLeftOut, bodies.ContributionsSetAside, bodies.ContributionsCountedIn
    for entry in ledger.find(*kinds, stop=size):
        body = entry.body
        if entry.kind == bodies.ContributionsLeftOut.kind:
            out.update(body["left_out"])
            out.difference_update(body["again"])
        else:
            aside.update(*(part["indices"] for part in body.get("set_aside", ())))
            aside.difference_update(*(part["indices"] for part in body.get("again", ())))
            aside.difference_update(body.get("indices", ()))
    return out | aside


class CountsOverTime(Strict):
    """How many contributions came in each of several spans of equal length, up to now."""

    first_ns: int
    span_ns: int
    counts: tuple[int, ...]
    """Of the last span, which has not ended, so far."""


def over_time(
    ledger: LedgerReader, wanted: ContributionFilter, now_ns: int, span_ns: int, spans: int
) -> CountsOverTime:
    """Return how many came in whole spans of the calendar up to now."""
    first_ns = (now_ns // span_ns - spans + 1) * span_ns
    any_time = replace(wanted, before=2**62)
    found = Counter(
        (entry_ns - first_ns) // span_ns
        for entry_ns in ledger.times(_wanted(ledger, any_time, _since(ledger, first_ns)))
    )
    counts = tuple(found[place] for place in range(spans))
    return CountsOverTime(first_ns=first_ns, span_ns=span_ns, counts=counts)


def contributions_since(ledger: LedgerReader, time_ns: int) -> int:
    """Return how many contributions came since a time; what came earlier is not looked at."""
    return len(ledger.indices(bodies.ContributionAccepted, start=_since(ledger, time_ns)))


def _since(ledger: LedgerReader, time_ns: int) -> int:
    """Return the first entry from a time on; times fall only where a calendar was corrected."""
    return bisect_left(range(ledger.size), time_ns, key=lambda index: ledger.times([index])[0])


def by_state(ledger: LedgerReader, wanted: ContributionFilter) -> dict[str, GivenAmount]:
    """Return how much is in which state, most first; the state that is wanted is left open."""
    found = dict[str, GivenAmount]()
    for state, one in _sums(ledger, wanted):
        found[state] = found.get(state, GivenAmount()) + one
    return dict(sorted(found.items(), key=lambda item: (item[1].count, item[0]), reverse=True))


def _sums(ledger: LedgerReader, wanted: ContributionFilter) -> Iterator[tuple[str, GivenAmount]]:
    if wanted.model is not None:
        ends = _ends(ledger)
        for index, item in _made_of(ledger, wanted.model).items():
            if wanted.device in {None, item.device} and wanted.stage in {None, item.key.stage}:
                samples = sum(item.samples.values())
                yield ends.get(index, (0, "held"))[1], GivenAmount(1, samples, item.payload_bytes)
        return
    for stage, found in state_of(ledger).contributions.given.items():
        if wanted.stage in {None, stage}:
            devices = {str(name): sums for name, sums in found.devices.items()}
            sums = found.sums if wanted.device is None else devices.get(wanted.device, GivenSums())
            yield from sums.by_end.items()


def contributors(ledger: LedgerReader, version: int) -> int:
    """Return how many devices gave what a model was solved of; 0 of a network."""
    return len({item.device for item in _made_of(ledger, version).values()})


@dataclass(frozen=True)
class ClassFacts:
    """A registered class."""

    index: Annotated[int, Column("index")]
    name: Annotated[str, Column("name")]
    other_names: Annotated[tuple[str, ...], Column("other names", ", ".join)]
    samples: Annotated[int, Column("samples")]
    """Of what is in the sum, and of answers to rounds."""
    contributions: int
    first_stage: int | None
    correct: int
    """Where the model of all devices was measured."""
    total: int

    @property
    def share(self) -> float | None:
        """That is right; None where nothing was measured."""
        return self.correct / self.total if self.total else None


def class_facts(ledger: LedgerReader) -> list[ClassFacts]:
    """Return every class in the order of its index."""
    state, first = state_of(ledger), first_stages(ledger)
    version = state.models.leading
    counts = {} if version is None else class_counts(ledger, version)
    known, found = state.classes, dict[str, GivenAmount]()
    for stage in state.contributions.given.values():
        for used, one in stage.classes.items():
            name = known.present(used)
            found[name] = found.get(name, GivenAmount()) + one
    return [
        ClassFacts(
            known.indices[name],
            name,
            known.aliases_of(name),
            found.get(name, GivenAmount()).samples,
            found.get(name, GivenAmount()).count,
            first.get(name),
            counts[name].correct if name in counts else 0,
            counts[name].total if name in counts else 0,
        )
        for name in known.names
    ]
