"""What a round of training leaves: opened, closed, averaged, pruned, stopped, marked."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import (
    MAX_REASON,
)
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import TRAIN, ExtraName, PhaseName, RoundNumber
from fleetledger.schemas.values import ClassName, DeviceId, Digest

MAX_REFUSAL = 200
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

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The weights and what goes with them."""
        return (self.weights.digest, *(offer.digest for offer in self.extras.values()))


class WeightsPruned(EntryBody):
    """What older rounds gave was deleted, because nothing needs it; their entries stay."""

    kind: ClassVar[str] = "weights.pruned"
    numbers: tuple[RoundNumber, ...]
    """The rounds that gave it."""
    digests: tuple[Digest, ...]
    kept_rounds: int
    """How many of the newest rounds keep what they gave."""


class AnswersPruned(EntryBody):
    """What devices answered to a round is deleted, late answers too; their entries stay."""

    kind: ClassVar[str] = "answers.pruned"
    number: RoundNumber


class RoundFailed(EntryBody):
    """The answers of a round could not be averaged; the fleet's model stays as it was."""

    kind: ClassVar[str] = "round.failed"
    number: RoundNumber
    reason: str


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


class RoundsResumed(EntryBody):
    """A stage whose rounds had stopped goes on with them."""

    kind: ClassVar[str] = "rounds.resumed"
    stage: int
    reason: str
    anew: bool = False
    """Whether the pauses between rounds begin anew, too."""


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
