"""Kinds of entry of rounds: how each changes the state, and what devices are told again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, takewhile

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import (
    Follows,
    Kind,
    LedgerTopic,
    Notification,
    changes_nothing,
)
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.cohorts.entries import CohortEnded, CohortSilent, CohortSummed
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.rounds import entries, state
from fleetledger.coordinator.topics.stages.entries import BOUNDS
from fleetledger.schemas.values import DeviceId

MOST_NAMES_BYTES = 1 << 19
"""Of the names that one entry lists, half of what an entry may have."""
_NAME_BYTES = len('"",')


def _open(rounds: state.RoundsState, body: entries.RoundOpened, at: EntryContext) -> None:
    rounds.begin_round(state.Round(body, at.index, at.time_ns, rounds.weights))
    rounds.facts[body.number] = state.RoundFacts(
        body.number,
        body.stage,
        body.round_of_stage,
        body.phase,
        body.follows,
        at.index,
        at.time_ns,
        len(body.cohort),
        len(body.observers),
        body.weights.size,
    )
    rounds.last_number = body.number
    _ask(rounds, body, at)


def _continue(rounds: state.RoundsState, body: entries.CohortContinued, at: EntryContext) -> None:
    rounds.by_number[body.number].asks_too(body.cohort, body.observers)
    facts = rounds.facts[body.number]
    facts.asked, facts.looking = facts.asked + len(body.cohort), facts.looking + len(body.observers)
    _ask(rounds, body, at)


def _ask(
    rounds: state.RoundsState,
    body: entries.RoundOpened | entries.CohortContinued,
    at: EntryContext,
) -> None:
    for device in (*body.cohort, *body.observers):
        rounds.by_device.setdefault(device, state.DeviceRounds()).order_action = at.index
    if rounds.by_number[body.number].opened.buffering is not None:
        order = state.StandingOrder(body.number, at.time_ns)
        rounds.standing.update(dict.fromkeys(body.cohort, order))


def in_parts(
    opened: entries.RoundOpened,
) -> tuple[entries.RoundOpened, tuple[entries.CohortContinued, ...]]:
    """Return a round's opening with as many names as an entry may have, and entries of the rest.

    Who trains comes before who looks, each in the order of the opening.
    """
    asked = [(device, True) for device in opened.cohort]
    asked += [(device, False) for device in opened.observers]
    parts: list[tuple[tuple[DeviceId, ...], tuple[DeviceId, ...]]] = []
    while asked or not parts:
        count = _that_fit(device for device, _ in asked)
        part, asked = asked[:count], asked[count:]
        cohort = tuple(device for device, trains in part if trains)
        parts.append((cohort, tuple(device for device, trains in part if not trains)))
    (cohort, observers), *rest = parts
    first = opened.model_copy(update={"cohort": cohort, "observers": observers})
    number = opened.number
    return first, tuple(
        entries.CohortContinued(number=number, cohort=c, observers=o) for c, o in rest
    )


def _that_fit(devices: Iterable[DeviceId]) -> int:
    """Return how many of the first devices an entry names."""
    ends = accumulate(len(device) + _NAME_BYTES for device in devices)
    return sum(1 for _ in takewhile(lambda end: end <= MOST_NAMES_BYTES, ends))


def _close(rounds: state.RoundsState, body: entries.RoundClosed, at: EntryContext) -> None:
    current = rounds.by_number[body.number]
    current.closed = body
    current.ended_ns, current.ended_index = at.time_ns, at.index
    facts = rounds.facts[body.number]
    facts.state = "closed" if body.counted else "came to nothing"
    facts.closed_index, facts.closed_ns, facts.reason = at.index, at.time_ns, body.reason
    facts.counted, facts.missing = len(body.counted), len(body.missing)
    for device in current.unheard:
        rounds.by_device[device].order_action = at.index
        rounds.standing.pop(device, None)
    left_out = [name for name, one in rounds.waiting.items() if one.index in body.left_out]
    current.left_out += [rounds.waiting.pop(device) for device in left_out]
    if current.opened.buffering is not None:
        facts.staleness = max((body.staleness.get(index, 0) for index in body.counted), default=0)
    if not body.counted:
        _begin_again(rounds, current)


def _begin_again(rounds: state.RoundsState, current: state.Round) -> None:
    """Go back to what a round began with, one of whose phases came to nothing."""
    if current.opened.stage == rounds.stages.open:
        rounds.void.rounds.append(current)
    if current.opened.follows is not None:
        rounds.weights = rounds.first_of(current).weights


def _average(rounds: state.RoundsState, body: entries.WeightsAveraged, at: EntryContext) -> None:
    current = rounds.by_number[body.number]
    current.averaged = True
    facts = rounds.facts[body.number]
    facts.state, facts.averaged_index, facts.averaging_seconds = "averaged", at.index, body.seconds
    # A phase that passes the weights on has logits or images for answers, and no drift.
    facts.samples, facts.drift = body.samples, None if body.unchanged else body.client_drift
    cosines = {i: c for i, c in zip(body.inputs, body.cosines, strict=False) if c is not None}
    if cosines:
        farthest = min(cosines, key=cosines.__getitem__)
        facts.least_cosine = cosines[farthest]
        whose = (name for name, one in current.answers.items() if one.index == farthest)
        facts.farthest = next(whose, None)
    rounds.void.went_on(current)
    rounds.taint.means.append(at.index)
    inputs = set(body.inputs)
    for device, answer in current.answers.items():
        if answer.index in inputs:
            rounds.by_device[device].averaged[answer.began] = at.index
    rounds.weights = state.Weights(
        body.weights, body.class_names, at.index, dict(body.extras), body, at.time_ns
    )
    # In one order: a body that was read names its files in another one than when it was made.
    blobs = tuple(sorted(body.blobs))
    rounds.made[body.number] = state.AveragedWeights(
        body.number, at.index, body.weights, blobs, len(body.inputs)
    )
    rounds.pruned.difference_update(body.blobs)


def _prune(rounds: state.RoundsState, body: entries.WeightsPruned, _at: EntryContext) -> None:
    rounds.pruned.update(body.digests)
    for number in body.numbers:
        rounds.former_made.pop(number, None)


def _fail(rounds: state.RoundsState, body: entries.RoundFailed, at: EntryContext) -> None:
    current = rounds.by_number[body.number]
    current.failed = body.reason
    rounds.facts[body.number].state = "failed"
    rounds.facts[body.number].reason = body.reason
    current.ended_ns, current.ended_index = at.time_ns, at.index
    _begin_again(rounds, current)


def _stop(rounds: state.RoundsState, body: entries.RoundsStopped, at: EntryContext) -> None:
    rounds.void.stopped = state.Stopped(at.index, body.stage, body.reason, body.settings)


def _resume(rounds: state.RoundsState, body: entries.RoundsResumed, _at: EntryContext) -> None:
    again = [] if body.anew else rounds.void.rounds
    rounds.void = state.VoidRun(again, weighed=len(again))


def _mark(rounds: state.RoundsState, body: entries.DescentMarked, _at: EntryContext) -> None:
    """Remember from which mean on models descend from a device's retracted answers."""
    rounds.taint.marks.append((body.device, body.first_index))


def _take_answer(rounds: state.RoundsState, body: ContributionAccepted, at: EntryContext) -> None:
    part, answer = body.part, body.part.round
    if answer is None:
        return
    trained = rounds.by_device.setdefault(at.maker, state.DeviceRounds())
    trained.answers[answer.number] = state.AnsweredRound(at.index, part.payload)
    rounds.spend(at.maker)
    facts = rounds.facts.get(answer.number)
    if facts is not None:
        facts.answers += 1
        facts.answers_bytes += part.payload_bytes
        facts.seen.add(at.maker, answer.observation)
    if part.cohort is not None:
        rounds.by_number[answer.number].masked.add(at.maker)
    elif not body.late:
        samples = sum(part.samples.values())
        rounds.take(at.maker, state.RoundAnswered(at.index, part.payload, samples, answer.number))


def _ask_again(
    rounds: state.RoundsState, body: CohortSilent | CohortEnded, _at: EntryContext
) -> None:
    """Let devices answer again in another cohort, of whose answers in this one nothing comes."""
    current = rounds.current
    if current is None or current.closed is not None:
        return
    if isinstance(body, CohortEnded) and body.opened:
        return
    for device in body.silent if isinstance(body, CohortSilent) else body.members:
        if device in current.masked:
            current.masked.discard(device)
            rounds.by_device[device].answers.pop(current.opened.number, None)


def _take_sum(rounds: state.RoundsState, body: CohortSummed, at: EntryContext) -> None:
    """Take the sum of a cohort's answers as one answer."""
    if body.round is None or body.round not in rounds.by_number:
        return
    answered = state.AnsweredRound(at.index, body.payload)
    given = rounds.by_device.setdefault(body.device, state.DeviceRounds())
    given.answers[body.round] = answered
    if rounds.by_number[body.round].closed is None:
        members = len(body.members)
        answer = state.RoundAnswered(
            at.index, body.payload, body.weight, body.round, members=members
        )
        rounds.take(body.device, answer)


def _take_nothing(rounds: state.RoundsState, body: NothingReported, at: EntryContext) -> None:
    number, reason = body.nothing.round, body.nothing.reason
    if number is None:
        return
    trained = rounds.by_device.setdefault(at.maker, state.DeviceRounds())
    trained.answers[number] = state.AnsweredRound(at.index, None)
    if number in rounds.facts:
        rounds.facts[number].seen.add(at.maker, body.nothing.observation)
    current = rounds.by_number.get(number)
    if current is not None and current.opened.buffering is not None:
        if rounds.asks(at.maker) is current:
            rounds.standing.pop(at.maker, None)
        current = rounds.current
    if current is None or current.closed is not None:
        return
    if at.maker in current.observers:
        current.looked.add(at.maker)
    elif reason:
        current.unable[at.maker] = sys.intern(reason[: entries.MAX_REFUSAL])  # many say the same
    else:
        current.nothing.add(at.maker)


def _begin_statistics(
    rounds: state.RoundsState, _body: BackboneImported, _at: EntryContext
) -> None:
    rounds.begin_lineage(None)


def _begin_network(rounds: state.RoundsState, network: NetworkImported, at: EntryContext) -> None:
    weights = state.Weights(network.weights, network.class_names, at.index, dict(network.extras))
    rounds.begin_lineage(weights)


def _begin_stage(rounds: state.RoundsState, _body: EntryBody, _at: EntryContext) -> None:
    rounds.void = state.VoidRun()


def _move_times(rounds: state.RoundsState, body: ClockCorrected, _at: EntryContext) -> None:
    """Move the times that are compared with later ones."""
    for item in rounds.by_number.values():
        item.opened_ns -= body.by_ns
        if item.ended_ns is not None:
            item.ended_ns -= body.by_ns
    for device, order in rounds.standing.items():
        rounds.standing[device] = replace(order, asked_ns=order.asked_ns - body.by_ns)
    if rounds.weights is not None:
        rounds.weights = rounds.weights.set_back(body.by_ns)


ROUNDS: LedgerTopic[state.RoundsState] = LedgerTopic(
    "rounds",
    kinds=(
        Kind(entries.RoundOpened, _open, lambda _: Notification("round")),
        Kind(
            entries.CohortContinued,
            _continue,
            lambda body: Notification("round", body.devices),
            worth=logging.DEBUG,
        ),
        Kind(
            entries.RoundClosed,
            _close,
            lambda _: Notification("round"),
            trouble="json_array_length(body, '$.counted') = 0",
        ),
        Kind(entries.WeightsAveraged, _average, reorders=True),
        Kind(entries.WeightsPruned, _prune, worth=logging.DEBUG),
        Kind(entries.AnswersPruned, changes_nothing, worth=logging.DEBUG),
        Kind(entries.RoundFailed, _fail, worth=logging.WARNING, trouble=True),
        Kind(entries.RoundsStopped, _stop, trouble=True),
        Kind(entries.RoundsResumed, _resume),
        Kind(entries.DescentMarked, _mark),
    ),
    follows=(
        Follows(BackboneImported, _begin_statistics),
        Follows(NetworkImported, _begin_network),
        *(Follows(body, _begin_stage) for body in BOUNDS),
        Follows(CohortSilent, _ask_again),
        Follows(CohortSummed, _take_sum),
        Follows(CohortEnded, _ask_again),
        Follows(ContributionAccepted, _take_answer),
        Follows(NothingReported, _take_nothing),
        Follows(ClockCorrected, _move_times),
    ),
)
