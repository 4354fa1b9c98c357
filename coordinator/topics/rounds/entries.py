"""What a round of training leaves: opened, closed, averaged, pruned, stopped, marked."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import Annotated, ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.formatting import files, names_of, some
from fleetledger.coordinator.core.kind import (
    Follows,
    Kind,
    LedgerTopic,
    Place,
    Telling,
    changes_nothing,
)
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.contributions.entries import (
    MAX_REASON,
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.rounds.state import (
    AnsweredRound,
    AveragedWeights,
    DeviceRounds,
    Round,
    RoundAnswered,
    RoundFacts,
    RoundsState,
    Stopped,
    VoidRun,
    Weights,
)
from fleetledger.coordinator.topics.stages.entries import BOUNDS
from fleetledger.schemas.counted import agree, count_of
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import TRAIN, ExtraName, PhaseName, RoundNumber
from fleetledger.schemas.values import ClassName, DeviceId, Digest

MAX_REFUSAL = 200
MOST_NAMES_BYTES = 1 << 19
"""Of the names that one entry lists, half of what an entry may have."""
_NAME_BYTES = len('"",')
RefusalReason = Annotated[str, Field(max_length=MAX_REFUSAL)]


class RoundOpened(EntryBody):
    """A cohort was asked for one phase of a stage."""

    kind: ClassVar[str] = "round.opened"
    number: RoundNumber
    phase: PhaseName = TRAIN
    follows: RoundNumber | None = None
    """The round of the phase before, whose counted answers are the cohort of this one; None for a
    first phase, and for those before and after a stage's rounds."""
    stage: int
    round_of_stage: int
    rounds_of_stage: int
    cohort: tuple[DeviceId, ...]
    observers: tuple[DeviceId, ...] = ()
    """Devices that are asked only to look at their images; nobody waits for them."""
    weights: Offer
    weights_class_names: tuple[ClassName, ...]
    class_names: tuple[ClassName, ...]
    aliases: dict[ClassName, ClassName] = Field(default_factory=dict)
    """Other names of these classes when it was opened: files of before may have them."""
    extras: dict[ExtraName, Offer] = Field(default_factory=dict)
    seed: int
    deadline_seconds: float


def _open(rounds: RoundsState, body: RoundOpened, at: Place) -> None:
    rounds.by_number[body.number] = Round(body, at.index, at.time_ns, rounds.weights)
    rounds.facts[body.number] = RoundFacts(
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
        rounds.by_device.setdefault(device, DeviceRounds()).order_action = at.index


def _say_opened(body: RoundOpened, _: Place) -> str:
    looking = f" Only looking at images: {some(body.observers)}." if body.observers else ""
    what = "to train" if body.phase == TRAIN else f"for phase {body.phase!r}"
    after = "" if body.follows is None else f", going on from what they did in round {body.follows}"
    return (
        f"Round {body.number} (stage {body.stage}, {body.round_of_stage} of "
        f"{body.rounds_of_stage}) asks {some(body.cohort)} {what} from weights "
        f"{body.weights.digest.short}{after}.{looking}"
    )


class CohortContinued(EntryBody):
    """Further devices that a round asks, whose names one entry cannot hold.

    It follows the entry of its opening, or another one like it, and is committed with that.
    """

    kind: ClassVar[str] = "cohort.continued"
    number: RoundNumber
    """Of the round."""
    cohort: tuple[DeviceId, ...]
    observers: tuple[DeviceId, ...] = ()
    """Devices that are asked only to look at their images."""

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """All of them."""
        return self.cohort + self.observers


def _continue(rounds: RoundsState, body: CohortContinued, at: Place) -> None:
    rounds.by_number[body.number].asks_too(body.cohort, body.observers)
    facts = rounds.facts[body.number]
    facts.asked, facts.looking = facts.asked + len(body.cohort), facts.looking + len(body.observers)
    for device in body.devices:
        rounds.by_device.setdefault(device, DeviceRounds()).order_action = at.index


def _say_continued(body: CohortContinued, _: Place) -> str:
    looking = f" Only looking at images: {some(body.observers)}." if body.observers else ""
    trains = f" asks {some(body.cohort)}, too." if body.cohort else " asks more devices."
    return f"Round {body.number}{trains}{looking}"


def in_parts(opened: RoundOpened) -> tuple[RoundOpened, tuple[CohortContinued, ...]]:
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
    return first, tuple(CohortContinued(number=number, cohort=c, observers=o) for c, o in rest)


def _that_fit(devices: Iterable[DeviceId]) -> int:
    """Return how many of the first devices an entry names."""
    ends = accumulate(len(device) + _NAME_BYTES for device in devices)
    return sum(1 for _ in takewhile(lambda end: end <= MOST_NAMES_BYTES, ends))


class RoundClosed(EntryBody):
    """A round has what it waited for. Later answers are recorded, and left out of it."""

    kind: ClassVar[str] = "round.closed"
    number: RoundNumber
    reason: str
    counted: tuple[int, ...]
    """Ledger indices of the answers that count; none where the quorum was missed."""
    weights: dict[int, int] = Field(default_factory=dict)
    """Of these, those that count as fewer samples than they say, with how many."""
    nothing: tuple[DeviceId, ...]
    """Devices that had no data."""
    failed: tuple[DeviceId, ...] = ()
    """Devices that could not train, and said why."""
    missing: tuple[DeviceId, ...]
    """Devices of the cohort that did not answer in time."""
    refused: dict[RefusalReason, tuple[DeviceId, ...]] = Field(default_factory=dict)
    """Those of the missing whose answers were refused, by what was said of these."""


def _close(rounds: RoundsState, body: RoundClosed, at: Place) -> None:
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


def _begin_again(rounds: RoundsState, current: Round) -> None:
    """Go back to what a round began with, one of whose phases came to nothing."""
    if current.opened.stage == rounds.stages.open:
        rounds.void.rounds.append(current)
    if current.opened.follows is not None:
        rounds.weights = rounds.first_of(current).weights


def _say_closed(body: RoundClosed, _: Place) -> str:
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


class WeightsAveraged(EntryBody):
    """The answers of a round became the fleet's new model, or a file that its next phase needs."""

    kind: ClassVar[str] = "weights.averaged"
    number: RoundNumber
    phase: PhaseName | None = None
    """What they answered; None in entries of before phases were told."""
    unchanged: bool = False
    """Whether the weights are those that devices were sent: then the answers are in the extras."""
    lineage: Digest
    inputs: tuple[int, ...]
    """Ledger indices of the answers in the mean."""
    class_names: tuple[ClassName, ...]
    aggregate: Digest
    """Of the exact sum: the same for any order of the answers."""
    weights: Offer
    extras: dict[ExtraName, Offer] = Field(default_factory=dict)
    """Further files that devices are given from here on, such as an old model."""
    samples: int
    client_drift: float
    """Mean distance of the answers from their mean, relative to the length of the step."""
    fingerprint: dict[str, str]
    seconds: float
    remarks: tuple[str, ...] = ()

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The weights and what goes with them."""
        return (self.weights.digest, *(offer.digest for offer in self.extras.values()))


def _average(rounds: RoundsState, body: WeightsAveraged, at: Place) -> None:
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
    rounds.weights = Weights(
        body.weights, body.class_names, at.index, dict(body.extras), body, at.time_ns
    )
    # In one order: a body that was read names its files in another one than when it was made.
    blobs = tuple(sorted(body.blobs))
    rounds.made[body.number] = AveragedWeights(
        body.number, at.index, body.weights, blobs, len(body.inputs)
    )
    rounds.pruned.difference_update(body.blobs)


def _say_averaged(body: WeightsAveraged, _: Place) -> str:
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


class WeightsPruned(EntryBody):
    """What older rounds gave was deleted, because nothing needs it; their entries stay."""

    kind: ClassVar[str] = "weights.pruned"
    numbers: tuple[RoundNumber, ...]
    """The rounds that gave it."""
    digests: tuple[Digest, ...]
    kept_rounds: int
    """How many of the newest rounds keep what they gave."""


def _prune(rounds: RoundsState, body: WeightsPruned, _at: Place) -> None:
    rounds.pruned.update(body.digests)
    for number in body.numbers:
        rounds.former_made.pop(number, None)


def _say_pruned(body: WeightsPruned, _: Place) -> str:
    rounds = ", ".join(str(number) for number in body.numbers)
    return (
        f"What round{'s' if len(body.numbers) > 1 else ''} {rounds} gave is deleted: that of the "
        f"newest {body.kept_rounds} is kept, and what a model or a device needs."
    )


class AnswersPruned(EntryBody):
    """What devices answered to a round is deleted, late answers too; their entries stay."""

    kind: ClassVar[str] = "answers.pruned"
    number: RoundNumber


def _say_answers_pruned(body: AnswersPruned, _: Place) -> str:
    return (
        f"What devices answered to round {body.number} is deleted, but for what a model or a "
        "device needs."
    )


class RoundFailed(EntryBody):
    """The answers of a round could not be averaged; the fleet's model stays as it was."""

    kind: ClassVar[str] = "round.failed"
    number: RoundNumber
    reason: str


def _fail(rounds: RoundsState, body: RoundFailed, at: Place) -> None:
    current = rounds.by_number[body.number]
    current.failed = body.reason
    rounds.facts[body.number].state = "failed"
    rounds.facts[body.number].reason = body.reason
    current.ended_ns, current.ended_index = at.time_ns, at.index
    _begin_again(rounds, current)


def _say_failed(body: RoundFailed, _: Place) -> str:
    return f"Round {body.number} came to nothing: {body.reason}."


class RoundsStopped(EntryBody):
    """A stage asks for nothing more: its rounds came to nothing, one after the other."""

    kind: ClassVar[str] = "rounds.stopped"
    stage: int
    numbers: tuple[RoundNumber, ...]
    """The rounds that count towards the stop."""
    reason: str
    """A sentence that names what was refused, and by whom."""
    settings: Digest
    """Of the settings of rounds: with other ones it is tried again."""


def _stop(rounds: RoundsState, body: RoundsStopped, at: Place) -> None:
    rounds.void.stopped = Stopped(at.index, body.stage, body.reason, body.settings)


def _say_stopped(body: RoundsStopped, _: Place) -> str:
    return f"{body.reason[:1].upper()}{body.reason[1:]}."


class RoundsResumed(EntryBody):
    """A stage whose rounds had stopped goes on with them."""

    kind: ClassVar[str] = "rounds.resumed"
    stage: int
    reason: str
    anew: bool = False
    """Whether the pauses between rounds begin anew, too."""


def _resume(rounds: RoundsState, body: RoundsResumed, _at: Place) -> None:
    again = [] if body.anew else rounds.void.rounds
    rounds.void = VoidRun(again, weighed=len(again))


def _say_resumed(body: RoundsResumed, _: Place) -> str:
    return f"Stage {body.stage} goes on with its rounds: {body.reason}."


class DescentMarked(EntryBody):
    """The operator retracted answers to rounds: what came of them is marked, and stays as it is.

    A mean of networks is what later rounds began with, so nothing is taken out of it afterwards.
    """

    kind: ClassVar[str] = "descent.marked"
    device: DeviceId
    rounds: tuple[RoundNumber, ...]
    """Rounds whose mean has an answer of the device in it, as far as they were retracted."""
    first_index: int
    """Of the entry of the first of these means: what was made of it, or follows it, descends."""
    last_version: int | None
    """The last model before, which the operator may push; None where there is none."""
    versions: tuple[int, ...]
    """Models that descend, so far."""
    rounds_again: int
    """How many rounds would have to be run again, from before the first of them."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)


def _mark(rounds: RoundsState, body: DescentMarked, _at: Place) -> None:
    """Remember from which mean on models descend from a device's retracted answers."""
    rounds.taint.marks.append((body.device, body.first_index))


def _say_marked(body: DescentMarked, _: Place) -> str:
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


def _take_answer(rounds: RoundsState, body: ContributionAccepted, at: Place) -> None:
    if body.round is None:
        return
    trained = rounds.by_device.setdefault(at.maker, DeviceRounds())
    trained.answers[body.round] = AnsweredRound(at.index, body.payload)
    if not body.late:
        answer = RoundAnswered(at.index, body.payload, sum(body.samples.values()))
        rounds.by_number[body.round].answers[at.maker] = answer


def _take_nothing(rounds: RoundsState, body: NothingReported, at: Place) -> None:
    if body.round is None:
        return
    trained = rounds.by_device.setdefault(at.maker, DeviceRounds())
    trained.answers[body.round] = AnsweredRound(at.index, None)
    current = rounds.by_number.get(body.round)
    if current is None or current.closed is not None:
        return
    if at.maker in current.observers:
        current.looked.add(at.maker)
    elif body.reason:
        current.unable[at.maker] = sys.intern(body.reason[:MAX_REFUSAL])  # many say the same
    else:
        current.nothing.add(at.maker)


def _begin_statistics(rounds: RoundsState, _body: BackboneImported, _at: Place) -> None:
    rounds.begin_lineage(None)


def _begin_network(rounds: RoundsState, network: NetworkImported, at: Place) -> None:
    weights = Weights(network.weights, network.class_names, at.index, dict(network.extras))
    rounds.begin_lineage(weights)


def _begin_stage(rounds: RoundsState, _body: EntryBody, _at: Place) -> None:
    rounds.void = VoidRun()


def _move_times(rounds: RoundsState, body: ClockCorrected, _at: Place) -> None:
    """Move the times that are compared with later ones."""
    for item in rounds.by_number.values():
        item.opened_ns -= body.by_ns
        if item.ended_ns is not None:
            item.ended_ns -= body.by_ns
    if rounds.weights is not None:
        rounds.weights = rounds.weights.set_back(body.by_ns)


ROUNDS: LedgerTopic[RoundsState] = LedgerTopic(
    "rounds",
    kinds=(
        Kind(RoundOpened, _open, _say_opened, lambda _: Telling("round")),
        Kind(
            CohortContinued,
            _continue,
            _say_continued,
            lambda body: Telling("round", body.devices),
            worth=logging.DEBUG,
        ),
        Kind(
            RoundClosed,
            _close,
            _say_closed,
            lambda _: Telling("round"),
            trouble="json_array_length(body, '$.counted') = 0",
        ),
        Kind(WeightsAveraged, _average, _say_averaged, reorders=True),
        Kind(WeightsPruned, _prune, _say_pruned, worth=logging.DEBUG),
        Kind(AnswersPruned, changes_nothing, _say_answers_pruned, worth=logging.DEBUG),
        Kind(RoundFailed, _fail, _say_failed, worth=logging.WARNING, trouble=True),
        Kind(RoundsStopped, _stop, _say_stopped, trouble=True),
        Kind(RoundsResumed, _resume, _say_resumed),
        Kind(DescentMarked, _mark, _say_marked),
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
