"""What a decision changes.

A durable change is written by the store, then applied. The pieces of one run (`Presence`,
`Enrolling`, `Scanning`, `Work`, `Training`, `Detecting`, `Sending`, `Files`, `Models`,
`Waiting`, `Told`) change by being replaced: the new piece is itself the change, and the store
leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from device_agent.core.records import (
    Detecting,
    Enrolling,
    Files,
    Height,
    LetterKey,
    Models,
    Presence,
    Scanning,
    Sending,
    Told,
    Training,
    Waited,
    Waiting,
    Work,
)
from learning.numerics.detection import Detector
from schemas.assignments import Assignment
from schemas.contributions import Contribution, PartKey
from schemas.models import DesiredModel, ModelStatus
from schemas.presence import SeenCheckpoint
from schemas.proxy import PrototypeGradients
from schemas.releases import SignedRelease
from schemas.reports import Evaluation, Transition
from schemas.roots import SignedRoot
from schemas.rounds import Observation
from schemas.values import BootId, ClassName, Digest


@dataclass(frozen=True)
class AssignmentTaken:
    """A newer assignment replaces the one that was known."""

    assignment: Assignment
    ledger_boot: BootId


@dataclass(frozen=True)
class DesiredTaken:
    """A newer desired model replaces the one that was known."""

    desired: DesiredModel
    ledger_boot: BootId


@dataclass(frozen=True)
class ActionsForgotten:
    """The ledger is shorter than it was: its actions begin anew."""

    ledger_boot: BootId


@dataclass(frozen=True)
class NextPartLearned:
    """The coordinator named a free part number."""

    next_part: int


@dataclass(frozen=True)
class PartWritten:
    """A part was computed: part, letter and counted images in one transaction.

    Replaces the images of an earlier revision of the same part.
    """

    contribution: Contribution
    images: tuple[tuple[Digest, ClassName], ...]
    attached: bytes | None
    """The payload, unless it is offered."""


@dataclass(frozen=True)
class PartWithdrawn:
    """A part is to be taken out of the sum; its images may be counted again."""

    key: PartKey
    revision: int
    reason: str


@dataclass(frozen=True)
class NothingWritten:
    """The device has no data for a stage, or its policy lets nothing leave."""

    stage: int
    reason: str = ""
    """What the policy says; empty where there is no data."""


@dataclass(frozen=True)
class AnswerWritten:
    """A round was answered: letter and memory in one transaction."""

    contribution: Contribution
    attached: bytes | None
    """The payload, unless it is offered."""
    memory: Digest | None
    """The file with what the method remembers from here on."""
    exemplars: int
    """How many samples of older classes that is."""


@dataclass(frozen=True)
class GradientsWritten:
    """A training made gradients for the proxy; written with its answer."""

    body: PrototypeGradients
    attached: bytes | None
    """The payload, unless it is offered."""


@dataclass(frozen=True)
class GradientsLost:
    """The file with gradients is gone before the proxy fetched it; there are none to send."""

    key: PartKey


@dataclass(frozen=True)
class MemoryForgotten:
    """The owner has deleted what the method remembers, and gradients that wait for the proxy."""


@dataclass(frozen=True)
class RoundDeclined:
    """The device has nothing for a round, or could not train in it."""

    stage: int
    number: int
    reason: str = ""
    """Why it could not; empty where it has no data."""


@dataclass(frozen=True)
class ObservationWritten:
    """The device looked at its images, as it was asked: answer and memory in one transaction."""

    stage: int
    number: int
    observation: Observation
    lineage: Digest
    memory: Digest | None
    """The file with what the method remembers from here on."""


@dataclass(frozen=True)
class AnswerLost:
    """The file with an answer's payload is gone before it was fetched; the round is open again."""

    key: PartKey


@dataclass(frozen=True)
class LetterAccepted:
    """The receipt arrived: the letter and its payload can go."""

    letter: LetterKey


@dataclass(frozen=True)
class CheckpointSeen:
    """A newer state of the ledger was proven to follow from the one that was known."""

    seen: SeenCheckpoint


@dataclass(frozen=True)
class CheckpointForgotten:
    """The owner lets the next receipt name a state of the ledger that follows from none."""


@dataclass(frozen=True)
class LetterRefused:
    """Refused for good: the letter goes to the dead letters, with the reason."""

    letter: LetterKey
    reason: str


@dataclass(frozen=True)
class PartRetracted:
    """The operator took an accepted part out of the sum: its images stay counted, and unsent."""

    key: PartKey
    reason: str


@dataclass(frozen=True)
class ImagesUnusable:
    """Images that do not decode; not tried again until their bytes change."""

    images: tuple[tuple[Digest, str], ...]


@dataclass(frozen=True)
class ActionEnded:
    """A desired model was brought to an end, and this is what is reported of it."""

    action: int | None
    """None when the active model failed by itself, without a new action."""
    status: ModelStatus


@dataclass(frozen=True)
class WaitNoted:
    """A desired model has been waited for so long; forgotten with the next one's."""

    waited: Waited


@dataclass(frozen=True)
class RootTaken:
    """A newer root follows from the one that was known; numbers of keys it drops are forgotten."""

    root: SignedRoot
    heights: Mapping[str, Height]


@dataclass(frozen=True)
class ReleaseTaken:
    """A release was believed: from here on no lower number is."""

    heights: Mapping[str, Height]


@dataclass(frozen=True)
class ReleaseInstalled:
    """A release is what runs; written with the report of its installation."""

    release: SignedRelease


@dataclass(frozen=True)
class TrustForgotten:
    """The owner lets trust begin anew with the root in the agent's folder."""


@dataclass(frozen=True)
class ModelEvaluated:
    """The active model was evaluated."""

    evaluation: Evaluation


@dataclass(frozen=True)
class ImagesMeasured:
    """New images were measured: what the detector makes of it, and those that are not counted."""

    detector: Detector
    images: tuple[Digest, ...]


@dataclass(frozen=True)
class TransitionWritten:
    """Something new is to be reported; its class names are not reported again."""

    transition: Transition


Durable: TypeAlias = (
    AssignmentTaken
    | DesiredTaken
    | ActionsForgotten
    | NextPartLearned
    | PartWritten
    | PartWithdrawn
    | NothingWritten
    | AnswerWritten
    | GradientsWritten
    | GradientsLost
    | MemoryForgotten
    | RoundDeclined
    | ObservationWritten
    | AnswerLost
    | LetterAccepted
    | CheckpointSeen
    | CheckpointForgotten
    | LetterRefused
    | PartRetracted
    | ImagesUnusable
    | ActionEnded
    | WaitNoted
    | RootTaken
    | ReleaseTaken
    | ReleaseInstalled
    | TrustForgotten
    | ModelEvaluated
    | ImagesMeasured
    | TransitionWritten
)
Piece: TypeAlias = (
    Presence
    | Enrolling
    | Scanning
    | Work
    | Training
    | Detecting
    | Sending
    | Files
    | Models
    | Waiting
    | Told
)
Change: TypeAlias = Durable | Piece
PIECES = (
    Presence,
    Enrolling,
    Scanning,
    Work,
    Training,
    Detecting,
    Sending,
    Files,
    Models,
    Waiting,
    Told,
)
