"""Kinds of entry of rounds: how each changes the state, and what is said of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from itertools import accumulate, takewhile

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import (
    EntryContext,
    Follows,
    Kind,
    LedgerTopic,
    Notification,
    changes_nothing,
)
from fleetledger.coordinator.core.phrases import files, names_of, some
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.rounds import entries, state
from fleetledger.coordinator.topics.stages.entries import BOUNDS
from fleetledger.schemas.count_words import agree, count_of
from fleetledger.schemas.rounds import TRAIN
from fleetledger.schemas.values import DeviceId

MOST_NAMES_BYTES = 1 << 19
"""Of the names that one entry lists, half of what an entry may have."""
_NAME_BYTES = len('"",')


def _open(rounds: state.RoundsState, body: entries.RoundOpened, at: EntryContext) -> None:
    rounds.by_number[body.number] = state.Round(body, at.index, at.time_ns, rounds.weights)
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
    for device in (*body.cohort, *body.observers):
        rounds.by_device.setdefault(device, state.DeviceRounds()).order_action = at.index


def _say_opened(body: entries.RoundOpened, _: EntryContext) -> str:
    looking = f" Only looking at images: {some(body.observers)}." if body.observers else ""
    what = "to train" if body.phase == TRAIN else f"for phase {body.phase!r}"
    after = "" if body.follows is None else f", going on from what they did in round {body.follows}"
    return (
        f"Round {body.number} (stage {body.stage}, {body.round_of_stage} of "
        f"{body.rounds_of_stage}) asks {some(body.cohort)} {what} from weights "
        f"{body.weights.digest.short}{after}.{looking}"
    )


def _continue(rounds: state.RoundsState, body: entries.CohortContinued, at: EntryContext) -> None:
    rounds.by_number[body.number].asks_too(body.cohort, body.observers)
    facts = rounds.facts[body.number]
    facts.asked, facts.looking = facts.asked + len(body.cohort), facts.looking + len(body.observers)
    for device in body.devices:
        rounds.by_device.setdefault(device, state.DeviceRounds()).order_action = at.index


def _say_continued(body: entries.CohortContinued, _: EntryContext) -> str:
    looking = f" Only looking at images: {some(body.observers)}." if body.observers else ""
    trains = f" asks {some(body.cohort)}, too." if body.cohort else " asks more devices."
    return f"Round {body.number}{trains}{looking}"


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
    if not body.counted:
        _begin_again(rounds, current)


def _begin_again(rounds: state.RoundsState, current: state.Round) -> None:
    """Go back to what a round began with, one of whose phases came to nothing."""
    if current.opened.stage == rounds.stages.open:
        rounds.void.rounds.append(current)
    if current.opened.follows is not None:
        rounds.weights = rounds.first_of(current).weights


def _say_closed(body: entries.RoundClosed, _: EntryContext) -> str:
    missing = f" Missing: {names_of(body.missing)}." if body.missing else ""
    failed = f" Gave no answer and said why: {names_of(body.failed)}." if body.failed else ""
    refused = "".join(
        f" Refused: {names_of(devices)} ({reason})." for reason, devices in body.refused.items()
    )
    number = len(body.counted)
    counts = f"{count_of(number, 'answer')} {agree(number, 'counts', 'count')}"
    what = counts if body.counted else "it comes to nothing"
    less = "".join(
        f" Entry {index} counts as {count_of(samples, 'sample')}, its share."
        for index, samples in body.weights.items()
    )
    said = f"{less}{missing}{refused}{failed}"
    return f"Round {body.number} closed because of {body.reason}: {what}.{said}"


def _average(rounds: state.RoundsState, body: entries.WeightsAveraged, at: EntryContext) -> None:
    current = rounds.by_number[body.number]
    current.averaged = True
    facts = rounds.facts[body.number]
    facts.state, facts.averaged_index, facts.averaging_seconds = "averaged", at.index, body.seconds
    # A phase that passes the weights on has logits or images for answers, and no drift.
    facts.samples, facts.drift = body.samples, None if body.unchanged else body.client_drift
    rounds.void.went_on(current)
    rounds.taint.means.append(at.index)
    inputs = set(body.inputs)
    for device, answer in current.answers.items():
        if answer.index in inputs:
            rounds.by_device[device].averaged[body.number] = at.index
    rounds.weights = state.Weights(
        body.weights, body.class_names, at.index, dict(body.extras), body, at.time_ns
    )
    # In one order: a body that was read names its files in another one than when it was made.
    blobs = tuple(sorted(body.blobs))
    rounds.made[body.number] = state.AveragedWeights(
        body.number, at.index, body.weights, blobs, len(body.inputs)
    )
    rounds.pruned.difference_update(body.blobs)


def _say_averaged(body: entries.WeightsAveraged, _: EntryContext) -> str:
    if body.unchanged:
        return (
            f"Round {body.number} (phase {body.phase!r}) left the weights as they are. What came "
            f"of {count_of(len(body.inputs), 'answer')} about {count_of(body.samples, 'sample')}, "
            f"whose exact sum has the digest {body.aggregate.short}, goes with them: "
            f"{files(body.extras)}." + "".join(f" Note: {remark}." for remark in body.remarks)
        )
    return (
        f"Round {body.number} gave weights {body.weights.digest.short}: the mean of "
        f"{count_of(len(body.inputs), 'answer')} learned from {count_of(body.samples, 'sample')}, "
        f"whose exact sum has the "
        f"digest {body.aggregate.short}." + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def _prune(rounds: state.RoundsState, body: entries.WeightsPruned, _at: EntryContext) -> None:
    rounds.pruned.update(body.digests)
    for number in body.numbers:
        rounds.former_made.pop(number, None)


def _say_pruned(body: entries.WeightsPruned, _: EntryContext) -> str:
    rounds = ", ".join(str(number) for number in body.numbers)
    return (
        f"What round{'s' if len(body.numbers) > 1 else ''} {rounds} gave is deleted: that of the "
        f"newest {body.kept_rounds} is kept, and what a model or a device needs."
    )


def _say_answers_pruned(body: entries.AnswersPruned, _: EntryContext) -> str:
    return (
        f"What devices answered to round {body.number} is deleted, but for what a model or a "
        "device needs."
    )


def _fail(rounds: state.RoundsState, body: entries.RoundFailed, at: EntryContext) -> None:
    current = rounds.by_number[body.number]
    current.failed = body.reason
    rounds.facts[body.number].state = "failed"
    rounds.facts[body.number].reason = body.reason
    current.ended_ns, current.ended_index = at.time_ns, at.index
    _begin_again(rounds, current)


def _say_failed(body: entries.RoundFailed, _: EntryContext) -> str:
    return f"Round {body.number} came to nothing: {body.reason}."


def _stop(rounds: state.RoundsState, body: entries.RoundsStopped, at: EntryContext) -> None:
    rounds.void.stopped = state.Stopped(at.index, body.stage, body.reason, body.settings)


def _say_stopped(body: entries.RoundsStopped, _: EntryContext) -> str:
    return f"{body.reason[:1].upper()}{body.reason[1:]}."


def _resume(rounds: state.RoundsState, body: entries.RoundsResumed, _at: EntryContext) -> None:
    again = [] if body.anew else rounds.void.rounds
    rounds.void = state.VoidRun(again, weighed=len(again))


def _say_resumed(body: entries.RoundsResumed, _: EntryContext) -> str:
    return f"Stage {body.stage} goes on with its rounds: {body.reason}."


def _mark(rounds: state.RoundsState, body: entries.DescentMarked, _at: EntryContext) -> None:
    """Remember from which mean on models descend from a device's retracted answers."""
    rounds.taint.marks.append((body.device, body.first_index))


def _say_marked(body: entries.DescentMarked, _: EntryContext) -> str:
    versions = ", ".join(map(str, body.versions)) or "none so far"
    before = (
        "no model is from before it"
        if body.last_version is None
        else f"model {body.last_version} is the last from before it"
    )
    rounds = ", ".join(map(str, body.rounds))
    means = f"mean of round {rounds}, which stays as it is"
    if len(body.rounds) > 1:
        means = f"means of rounds {rounds}, which stay as they are"
    again = f"{body.rounds_again} round{'s' if body.rounds_again > 1 else ''}"
    return (
        f"The operator retracted answers of device {body.device}: {body.reason}. They are in the "
        f"{means}. Models that descend from them: {versions}, and those to come; {before}. To be "
        f"without them, {again} would have to be run again, from before entry {body.first_index}."
    )


def _take_answer(rounds: state.RoundsState, body: ContributionAccepted, at: EntryContext) -> None:
    part, answer = body.part, body.part.round
    if answer is None:
        return
    trained = rounds.by_device.setdefault(at.maker, state.DeviceRounds())
    trained.answers[answer.number] = state.AnsweredRound(at.index, part.payload)
    facts = rounds.facts.get(answer.number)
    if facts is not None:
        facts.answers += 1
        facts.answers_bytes += part.payload_bytes
        facts.seen.add(at.maker, answer.observation)
    if not body.late:
        answered = state.RoundAnswered(at.index, part.payload, sum(part.samples.values()))
        rounds.by_number[answer.number].answers[at.maker] = answered


def _take_nothing(rounds: state.RoundsState, body: NothingReported, at: EntryContext) -> None:
    number, reason = body.nothing.round, body.nothing.reason
    if number is None:
        return
    trained = rounds.by_device.setdefault(at.maker, state.DeviceRounds())
    trained.answers[number] = state.AnsweredRound(at.index, None)
    if number in rounds.facts:
        rounds.facts[number].seen.add(at.maker, body.nothing.observation)
    current = rounds.by_number.get(number)
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
    if rounds.weights is not None:
        rounds.weights = rounds.weights.set_back(body.by_ns)


ROUNDS: LedgerTopic[state.RoundsState] = LedgerTopic(
    "rounds",
    kinds=(
        Kind(entries.RoundOpened, _open, _say_opened, lambda _: Notification("round")),
        Kind(
            entries.CohortContinued,
            _continue,
            _say_continued,
            lambda body: Notification("round", body.devices),
            worth=logging.DEBUG,
        ),
        Kind(
            entries.RoundClosed,
            _close,
            _say_closed,
            lambda _: Notification("round"),
            trouble="json_array_length(body, '$.counted') = 0",
        ),
        Kind(entries.WeightsAveraged, _average, _say_averaged, reorders=True),
        Kind(entries.WeightsPruned, _prune, _say_pruned, worth=logging.DEBUG),
        Kind(entries.AnswersPruned, changes_nothing, _say_answers_pruned, worth=logging.DEBUG),
        Kind(entries.RoundFailed, _fail, _say_failed, worth=logging.WARNING, trouble=True),
        Kind(entries.RoundsStopped, _stop, _say_stopped, trouble=True),
        Kind(entries.RoundsResumed, _resume, _say_resumed),
        Kind(entries.DescentMarked, _mark, _say_marked),
    ),
    follows=(
        Follows(BackboneImported, _begin_statistics),
        Follows(NetworkImported, _begin_network),
        *(Follows(body, _begin_stage) for body in BOUNDS),
        Follows(ContributionAccepted, _take_answer),
        Follows(NothingReported, _take_nothing),
        Follows(ClockCorrected, _move_times),
    ),
)
