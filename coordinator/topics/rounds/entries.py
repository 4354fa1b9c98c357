"""What a round of training leaves: opened, closed, averaged, pruned, stopped, marked."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.phrases import files, names_of, some
from fleetledger.coordinator.topics.contributions.entries import (
    MAX_REASON,
)
from fleetledger.methods.training.robust import Robust
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import TRAIN, ExtraName, PhaseName, RoundNumber, RoundTerms
from fleetledger.schemas.values import ClassName, DeviceId, Digest

MAX_REFUSAL = 200
NoiseSeed = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
RefusalReason = Annotated[str, Field(max_length=MAX_REFUSAL)]


class Buffering(Strict):
    """How answers count in an asynchronous round, whichever round's weights they began from."""

    answers: int = Field(ge=1)
    """Answers after which the round closes."""
    mixes: bool
    """Whether the weights are drawn towards the answers, instead of moved as these have moved."""
    rate: float
    """Factor of the mean step."""
    staleness_weights: tuple[int, ...] = Field(min_length=1)
    """Weight of an answer by the age of its weights in versions, of 256; older ones do not
    count."""

    @property
    def max_staleness(self) -> int:
        """Versions by which an answer's weights may be old."""
        return len(self.staleness_weights) - 1


class RoundOpened(RoundTerms, EntryBody):
    """A cohort was asked for one phase of a stage; `aliases` are those of that moment."""

    kind: ClassVar[str] = "round.opened"
    stage: int
    cohort: tuple[DeviceId, ...]
    """An asynchronous round asks further devices as others answer."""
    observers: tuple[DeviceId, ...] = ()
    """Devices that are asked only to look at their images; nobody waits for them."""
    buffering: Buffering | None = Field(default=None, exclude_if=is_absent)
    """Given for an asynchronous round."""
    robust: Robust | None = Field(default=None, exclude_if=is_absent)
    """How answers count that may be anybody's; None for their mean as it is."""

    def say(self, at: EntryContext) -> str:
        if self.buffering is not None:
            asked = f"asks {some(self.cohort)} to train" if self.cohort else "asks nobody yet"
            return (
                f"Round {self.number} (stage {self.stage}, {self.round_of_stage} of "
                f"{self.rounds_of_stage}) {asked} from weights {self.weights.digest.short}, and "
                f"takes {count_of(self.buffering.answers, 'answer')}, also to rounds before it."
            )
        looking = f" Only looking at images: {some(self.observers)}." if self.observers else ""
        robust = "" if self.robust is None else f" Answers become {self.robust.said}."
        what = "to train" if self.phase == TRAIN else f"for phase {self.phase!r}"
        after = (
            "" if self.follows is None else f", going on from what they did in round {self.follows}"
        )
        return (
            f"Round {self.number} (stage {self.stage}, {self.round_of_stage} of "
            f"{self.rounds_of_stage}) asks {some(self.cohort)} {what} from weights "
            f"{self.weights.digest.short}{after}.{looking}{robust}"
        )


class CohortContinued(EntryBody):
    """Further devices that a round asks.

    Where one entry cannot hold all names, it follows that of the opening, or another one like it,
    and is committed with that. An asynchronous round asks further devices at any time.
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

    def say(self, at: EntryContext) -> str:
        looking = f" Only looking at images: {some(self.observers)}." if self.observers else ""
        trains = f" asks {some(self.cohort)}, too." if self.cohort else " asks more devices."
        return f"Round {self.number}{trains}{looking}"


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
    staleness: dict[int, int] = Field(default_factory=dict, exclude_if=is_absent)
    """Of the answers that count, those that began from older weights, with the age in versions."""
    left_out: tuple[int, ...] = Field(default=(), exclude_if=is_absent)
    """Answers that came for a later asynchronous round, and whose weights are too old for it."""

    def say(self, at: EntryContext) -> str:
        missing = f" Missing: {names_of(self.missing)}." if self.missing else ""
        if self.staleness:
            oldest = count_of(max(self.staleness.values()), "version")
            old = len(self.staleness)
            missing = f" {old} of them began from older weights, by {oldest} at most.{missing}"
        if self.left_out:
            missing += f" Left out, since they are too old: {_entries(self.left_out)}."
        failed = f" Gave no answer and said why: {names_of(self.failed)}." if self.failed else ""
        refused = "".join(
            f" Refused: {names_of(devices)} ({reason})." for reason, devices in self.refused.items()
        )
        number = len(self.counted)
        counts = f"{count_of(number, 'answer')} {agree(number, 'counts', 'count')}"
        what = counts if self.counted else "it comes to nothing"
        less = "".join(
            f" Entry {index} counts as {count_of(samples, 'sample')}, its share."
            for index, samples in self.weights.items()
        )
        said = f"{less}{missing}{refused}{failed}"
        return f"Round {self.number} closed because of {self.reason}: {what}.{said}"


def _entries(indices: tuple[int, ...]) -> str:
    return f"{'entry' if len(indices) == 1 else 'entries'} {', '.join(map(str, indices))}"


class WeightsAveraged(EntryBody):
    """The answers of a round became the fleet's new model, or a file that its next phase needs."""

    kind: ClassVar[str] = "weights.averaged"
    number: RoundNumber
    phase: PhaseName = TRAIN
    """Phase of the stage that they answered."""
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
    noise_seed: NoiseSeed = Field(default="", exclude_if=lambda seed: not seed)
    """Of the noise that was added to the mean, 32 bytes in hexadecimal; empty where none was.
    Whoever reads it can subtract the noise: docs/private-rounds.md."""
    norms: tuple[float, ...] = Field(default=(), exclude_if=is_absent)
    """Of each input, in their order, the length of its move from the weights that were sent; of
    rounds that are robust."""
    cosines: tuple[float | None, ...] = Field(default=(), exclude_if=is_absent)
    """Likewise the cosine of its move to the mean direction of the others; None where either did
    not move."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The weights and what goes with them."""
        return (self.weights.digest, *(offer.digest for offer in self.extras.values()))

    def say(self, at: EntryContext) -> str:
        if self.unchanged:
            return (
                f"Round {self.number} (phase {self.phase!r}) left the weights as they are. What "
                f"came of {count_of(len(self.inputs), 'answer')} about "
                f"{count_of(self.samples, 'sample')}, whose exact sum has the digest "
                f"{self.aggregate.short}, goes with them: "
                f"{files(self.extras)}." + "".join(f" Note: {remark}." for remark in self.remarks)
            )
        noisy = " with Gaussian noise on it" if self.noise_seed else ""
        return (
            f"Round {self.number} gave weights {self.weights.digest.short}: the mean of "
            f"{count_of(len(self.inputs), 'answer')} learned from "
            f"{count_of(self.samples, 'sample')}{noisy}, whose exact sum has the digest "
            f"{self.aggregate.short}." + "".join(f" Note: {remark}." for remark in self.remarks)
        )


class WeightsPruned(EntryBody):
    """What older rounds gave was deleted, because nothing needs it; their entries stay."""

    kind: ClassVar[str] = "weights.pruned"
    numbers: tuple[RoundNumber, ...]
    """The rounds that gave it."""
    digests: tuple[Digest, ...]
    kept_rounds: int
    """How many of the newest rounds keep what they gave."""

    def say(self, at: EntryContext) -> str:
        rounds = ", ".join(str(number) for number in self.numbers)
        return (
            f"What round{'s' if len(self.numbers) > 1 else ''} {rounds} gave is deleted: that of "
            f"the newest {self.kept_rounds} is kept, and what a model or a device needs."
        )


class AnswersPruned(EntryBody):
    """What devices answered to a round is deleted, late answers too; their entries stay."""

    kind: ClassVar[str] = "answers.pruned"
    number: RoundNumber
    began: tuple[RoundNumber, ...] = Field(default=(), exclude_if=is_absent)
    """Rounds before it whose answers counted in it."""

    def say(self, at: EntryContext) -> str:
        return (
            f"What devices answered to round {self.number} is deleted, but for what a model or a "
            "device needs."
        )


class RoundFailed(EntryBody):
    """The answers of a round could not be averaged; the fleet's model stays as it was."""

    kind: ClassVar[str] = "round.failed"
    number: RoundNumber
    reason: str

    def say(self, at: EntryContext) -> str:
        return f"Round {self.number} came to nothing: {self.reason}."


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

    def say(self, at: EntryContext) -> str:
        return f"{self.reason[:1].upper()}{self.reason[1:]}."


class RoundsResumed(EntryBody):
    """A stage whose rounds had stopped goes on with them."""

    kind: ClassVar[str] = "rounds.resumed"
    stage: int
    reason: str
    anew: bool = False
    """Whether the pauses between rounds begin anew, too."""

    def say(self, at: EntryContext) -> str:
        return f"Stage {self.stage} goes on with its rounds: {self.reason}."


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

    def say(self, at: EntryContext) -> str:
        versions = ", ".join(map(str, self.versions)) or "none so far"
        before = (
            "no model is from before it"
            if self.last_version is None
            else f"model {self.last_version} is the last from before it"
        )
        rounds = ", ".join(map(str, self.rounds))
        means = f"mean of round {rounds}, which stays as it is"
        if len(self.rounds) > 1:
            means = f"means of rounds {rounds}, which stay as they are"
        again = f"{self.rounds_again} round{'s' if self.rounds_again > 1 else ''}"
        return (
            f"The operator retracted answers of device {self.device}: {self.reason}. They are in "
            f"the {means}. Models that descend from them: {versions}, and those to come; {before}. "
            f"To be without them, {again} would have to be run again, from before entry "
            f"{self.first_index}."
        )
