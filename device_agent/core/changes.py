"""What a decision changes.

A durable change says what it makes of the records, once: it is applied to a draft of them, whose
rows the store writes before the records themselves change. The pieces of one run (`PresenceState`,
`EnrollingState`, `Scanning`, `CountingState`, `Training`, `Detecting`, `Sending`, `Files`,
`ModelProgress`, `ModelWait`, `Listening`, `OwnReports`) change by being replaced: the new piece is
itself the change, and the store leaves it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from device_agent.core.draft import Draft, Refusal
from device_agent.core.records import (
    ContributionShard,
    CountedImage,
    CountingState,
    Detecting,
    EnrollingState,
    Files,
    Height,
    Listening,
    ModelProgress,
    ModelWait,
    NoveltyCheck,
    OutboxKey,
    OutboxMessage,
    OwnReports,
    PartState,
    PresenceState,
    Scanning,
    Sending,
    SignedNews,
    Training,
    Waited,
)
from learning.numerics.detection import Detector
from schemas.assignments import Assignment
from schemas.contributions import Contribution, Nothing, PartKey, Withdrawal
from schemas.models import DesiredModel, ModelStatus
from schemas.presence import SeenCheckpoint
from schemas.proxy import PrototypeGradients
from schemas.releases import SignedRelease
from schemas.reports import Evaluation, Transition
from schemas.roots import SignedRoot
from schemas.rounds import Observation
from schemas.values import BootId, ClassName, Digest


class Durable(ABC):
    """A change that outlives the program: written down with others in one transaction."""

    @abstractmethod
    def __call__(self, draft: Draft) -> None:
        """Make of the records what they are from here on."""


@dataclass(frozen=True)
class AssignmentTaken(Durable):
    """A newer assignment replaces the one that was known."""

    assignment: Assignment
    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        draft.assignment, draft.ledger_boot = self.assignment, self.ledger_boot


@dataclass(frozen=True)
class DesiredTaken(Durable):
    """A newer desired model replaces the one that was known."""

    desired: DesiredModel
    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        draft.desired, draft.ledger_boot = self.desired, self.ledger_boot


@dataclass(frozen=True)
class ActionsForgotten(Durable):
    """The ledger is shorter than it was: its actions begin anew."""

    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        _forget_actions(draft, self.ledger_boot)


@dataclass(frozen=True)
class NextPartLearned(Durable):
    """The coordinator named a free part number."""

    next_part: int

    def __call__(self, draft: Draft) -> None:
        draft.next_part = self.next_part


@dataclass(frozen=True)
class PartWritten(Durable):
    """A part was computed: part, message and counted images in one transaction.

    Replaces the images of an earlier revision of the same part.
    """

    contribution: Contribution
    images: tuple[tuple[Digest, ClassName], ...]
    attached: bytes | None
    """The payload, unless it is offered."""

    def __call__(self, draft: Draft) -> None:
        body = self.contribution
        _release_images(draft, body.key)
        counted = draft.counted[body.lineage]
        counted.update((digest, CountedImage(body.key, name)) for digest, name in self.images)
        draft.measured -= {digest for digest, _ in self.images}
        draft.parts[body.key] = ContributionShard(
            body.revision, "waiting", body.lineage, body.payload
        )
        draft.post(
            OutboxKey("contribution", body.key), OutboxMessage(body.revision, body), self.attached
        )


@dataclass(frozen=True)
class PartWithdrawn(Durable):
    """A part is to be taken out of the sum; its images may be counted again."""

    key: PartKey
    revision: int
    reason: str

    def __call__(self, draft: Draft) -> None:
        _release_images(draft, self.key)
        known = draft.parts.get(self.key)
        lineage = known.lineage if known is not None else None
        draft.parts[self.key] = ContributionShard(self.revision, "withdrawn", lineage, None)
        draft.take_out(OutboxKey("contribution", self.key))
        body = Withdrawal(key=self.key, revision=self.revision, reason=self.reason)
        draft.post(OutboxKey("withdrawal", self.key), OutboxMessage(self.revision, body))


@dataclass(frozen=True)
class NothingWritten(Durable):
    """The device has no data for a stage, or its policy lets nothing leave."""

    stage: int
    reason: str = ""
    """What the policy says; empty where there is no data."""

    def __call__(self, draft: Draft) -> None:
        draft.nothing.add(self.stage)
        message = OutboxKey("nothing", PartKey(stage=self.stage, part=0))
        draft.post(message, OutboxMessage(0, Nothing(stage=self.stage, reason=self.reason)))


@dataclass(frozen=True)
class AnswerWritten(Durable):
    """A round was answered: message and memory in one transaction."""

    contribution: Contribution
    attached: bytes | None
    """The payload, unless it is offered."""
    memory: Digest | None
    """The file with what the method remembers from here on."""
    exemplars: int
    """How many samples of older classes that is."""

    def __call__(self, draft: Draft) -> None:
        body = self.contribution
        draft.answered.add(body.key.part)
        draft.memory, draft.exemplars = self.memory, self.exemplars
        draft.memory_lineage = body.lineage
        if body.round is not None and body.round.observation is not None:
            draft.look = NoveltyCheck(body.round.number, body.round.observation)
        draft.post(
            OutboxKey("contribution", body.key), OutboxMessage(body.revision, body), self.attached
        )


@dataclass(frozen=True)
class GradientsWritten(Durable):
    """A training made gradients for the proxy; written with its answer."""

    body: PrototypeGradients
    attached: bytes | None
    """The payload, unless it is offered."""

    def __call__(self, draft: Draft) -> None:
        draft.post(
            OutboxKey("gradients", self.body.key), OutboxMessage(0, self.body), self.attached
        )


@dataclass(frozen=True)
class GradientsLost(Durable):
    """The file with gradients is gone before the proxy fetched it; there are none to send."""

    key: PartKey

    def __call__(self, draft: Draft) -> None:
        draft.take_out(OutboxKey("gradients", self.key))


@dataclass(frozen=True)
class MemoryForgotten(Durable):
    """The owner has deleted what the method remembers, and gradients that wait for the proxy."""

    def __call__(self, draft: Draft) -> None:
        draft.memory, draft.exemplars = None, 0
        for key in [key for key in draft.outbox if key.about == "gradients"]:
            draft.take_out(key)


@dataclass(frozen=True)
class RoundDeclined(Durable):
    """The device has nothing for a round, or could not train in it."""

    stage: int
    number: int
    reason: str = ""
    """Why it could not; empty where it has no data."""

    def __call__(self, draft: Draft) -> None:
        draft.answered.add(self.number)
        message = OutboxKey("nothing", PartKey(stage=self.stage, part=self.number))
        draft.post(
            message,
            OutboxMessage(0, Nothing(stage=self.stage, round=self.number, reason=self.reason)),
        )


@dataclass(frozen=True)
class ObservationWritten(Durable):
    """The device looked at its images, as it was asked: answer and memory in one transaction."""

    stage: int
    number: int
    observation: Observation
    lineage: Digest
    memory: Digest | None
    """The file with what the method remembers from here on."""

    def __call__(self, draft: Draft) -> None:
        draft.answered.add(self.number)
        draft.memory, draft.memory_lineage = self.memory, self.lineage
        draft.look = NoveltyCheck(self.number, self.observation)
        key = OutboxKey("nothing", PartKey(stage=self.stage, part=self.number))
        body = Nothing(stage=self.stage, round=self.number, observation=self.observation)
        draft.post(key, OutboxMessage(0, body))


@dataclass(frozen=True)
class AnswerLost(Durable):
    """The file with an answer's payload is gone before it was fetched; the round is open again."""

    key: PartKey

    def __call__(self, draft: Draft) -> None:
        draft.answered.discard(self.key.part)
        draft.take_out(OutboxKey("contribution", self.key))


@dataclass(frozen=True)
class AcceptanceNoted(Durable):
    """The receipt arrived: the message and its payload can go."""

    message: OutboxKey

    def __call__(self, draft: Draft) -> None:
        draft.take_out(self.message)
        _mark_part(draft, self.message, "accepted")


@dataclass(frozen=True)
class CheckpointSeen(Durable):
    """A newer state of the ledger was proven to follow from the one that was known."""

    seen: SeenCheckpoint

    def __call__(self, draft: Draft) -> None:
        draft.seen = self.seen


@dataclass(frozen=True)
class CheckpointForgotten(Durable):
    """The owner lets the ledger begin anew: what it has proven, and its actions, are forgotten."""

    def __call__(self, draft: Draft) -> None:
        draft.seen, draft.heard, draft.silent = None, SignedNews(), 0.0
        _forget_actions(draft, None)


@dataclass(frozen=True)
class HeardMore(Durable):
    """The coordinator has signed a newer run, more entries or a later time than any before."""

    heard: SignedNews

    def __call__(self, draft: Draft) -> None:
        draft.heard = self.heard


@dataclass(frozen=True)
class SilenceNoted(Durable):
    """Nothing new that is signed came for so long; 0 once something came."""

    seconds: float

    def __call__(self, draft: Draft) -> None:
        draft.silent = self.seconds


@dataclass(frozen=True)
class RefusalNoted(Durable):
    """Refused for good: the message goes to the dead letters, with the reason."""

    message: OutboxKey
    reason: str

    def __call__(self, draft: Draft) -> None:
        message = draft.outbox[self.message]
        draft.refuse(Refusal(self.message, message.revision, message.body, self.reason))
        draft.take_out(self.message)
        _mark_part(draft, self.message, "refused")


@dataclass(frozen=True)
class PartRetracted(Durable):
    """The operator took an accepted part out of the sum: its images stay counted, and unsent."""

    key: PartKey
    reason: str

    def __call__(self, draft: Draft) -> None:
        message = OutboxKey("contribution", self.key)
        draft.refuse(Refusal(message, draft.parts[self.key].revision, None, self.reason))
        _mark_part(draft, message, "refused")


@dataclass(frozen=True)
class PartsGivenAgain(Durable):
    """The owner wants the images of refused parts counted again: they go into new parts."""

    keys: tuple[PartKey, ...]

    def __call__(self, draft: Draft) -> None:
        for key in self.keys:
            _release_images(draft, key)
            draft.parts[key] = replace(draft.parts[key], state="withdrawn", payload=None)


@dataclass(frozen=True)
class ImagesUnusable(Durable):
    """Images that do not decode; not tried again until their bytes change."""

    images: tuple[tuple[Digest, str], ...]

    def __call__(self, draft: Draft) -> None:
        draft.unusable.update(self.images)


@dataclass(frozen=True)
class ActionEnded(Durable):
    """A desired model was brought to an end, and this is what is reported of it."""

    action: int | None
    """None when the active model failed by itself, without a new action."""
    status: ModelStatus

    def __call__(self, draft: Draft) -> None:
        draft.status = self.status
        if self.action is not None:
            draft.acted = self.action


@dataclass(frozen=True)
class WaitNoted(Durable):
    """A desired model has been waited for so long; forgotten with the next one's."""

    waited: Waited

    def __call__(self, draft: Draft) -> None:
        draft.waited = self.waited


@dataclass(frozen=True)
class RootTaken(Durable):
    """A newer root follows from the one that was known; numbers of keys it drops are forgotten."""

    root: SignedRoot
    heights: Mapping[str, Height]

    def __call__(self, draft: Draft) -> None:
        draft.root = self.root
        _replace(draft.heights, self.heights)


@dataclass(frozen=True)
class ReleaseTaken(Durable):
    """A release was believed: from here on no lower number is."""

    heights: Mapping[str, Height]

    def __call__(self, draft: Draft) -> None:
        _replace(draft.heights, self.heights)


@dataclass(frozen=True)
class ReleaseInstalled(Durable):
    """A release is what runs; written with the report of its installation."""

    release: SignedRelease

    def __call__(self, draft: Draft) -> None:
        draft.release = self.release


@dataclass(frozen=True)
class TrustForgotten(Durable):
    """The owner lets trust begin anew with the root in the agent's folder."""

    def __call__(self, draft: Draft) -> None:
        draft.root = draft.release = None
        draft.heights.clear()


@dataclass(frozen=True)
class ModelEvaluated(Durable):
    """The active model was evaluated."""

    evaluation: Evaluation

    def __call__(self, draft: Draft) -> None:
        draft.evaluation = self.evaluation


@dataclass(frozen=True)
class ImagesMeasured(Durable):
    """New images were measured: what the detector makes of it, and those that are not counted."""

    detector: Detector
    images: tuple[Digest, ...]

    def __call__(self, draft: Draft) -> None:
        draft.detector = self.detector
        draft.measured |= set(self.images)


@dataclass(frozen=True)
class TransitionWritten(Durable):
    """Something new is to be reported; its class names are not reported again."""

    transition: Transition

    def __call__(self, draft: Draft) -> None:
        body = self.transition
        draft.transitions = body.number + 1
        draft.reported |= set(body.classes)
        key = PartKey(stage=body.stage, part=body.number)
        draft.post(OutboxKey("transition", key), OutboxMessage(0, body))


Piece: TypeAlias = (
    PresenceState
    | EnrollingState
    | Scanning
    | CountingState
    | Training
    | Detecting
    | Sending
    | Files
    | ModelProgress
    | ModelWait
    | Listening
    | OwnReports
)
Change: TypeAlias = Durable | Piece


def _forget_actions(draft: Draft, ledger_boot: BootId | None) -> None:
    draft.assignment = draft.desired = draft.acted = draft.waited = None
    draft.ledger_boot = ledger_boot
    draft.nothing.clear()
    draft.reported.clear()


def _release_images(draft: Draft, key: PartKey) -> None:
    part = draft.parts.get(key)
    if part is None or part.lineage is None:
        return
    counted = draft.counted[part.lineage]
    for digest in [digest for digest, item in counted.items() if item.key == key]:
        del counted[digest]


def _mark_part(draft: Draft, message: OutboxKey, mark: PartState) -> None:
    # An answer to a round is no part.
    if message.about == "contribution" and message.key in draft.parts:
        draft.parts[message.key] = replace(draft.parts[message.key], state=mark)


def _replace(heights: MutableMapping[str, Height], by: Mapping[str, Height]) -> None:
    heights.clear()
    heights.update(by)
