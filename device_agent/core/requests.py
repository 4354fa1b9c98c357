"""What the rules ask of the shell; carried out after the commit, answered by inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fleetledger.device_agent.core.cohort_checks import CohortTrust
from fleetledger.device_agent.core.records import (
    ActiveModel,
    CohortJob,
    HiddenPart,
    ImageToCount,
    Job,
    Masking,
    OutboxKey,
    PendingComparison,
    ReadyPart,
    TrainingJob,
)
from fleetledger.device_agent.core.releases import ReleaseCheck
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.topics import UpLeaf
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.schemas.variants import VariantName


@dataclass(frozen=True)
class Send:
    """Publish a message."""

    leaf: UpLeaf
    body: Message
    retain: bool = False


@dataclass(frozen=True)
class SendOutboxMessage:
    """Publish a message of the outbox, with its payload attached if the store holds one."""

    message: OutboxKey
    body: Message


@dataclass(frozen=True)
class SendHeartbeat:
    """Publish the counters; the shell adds memory and traffic."""

    outbox_length: int
    waiting_images: int
    welcomed: bool
    assignment_action: int | None
    desired_action: int | None
    held: Digest | None
    seen_size: int | None = None


@dataclass(frozen=True)
class SendHealth:
    """Publish how the machine is; the shell asks it."""


@dataclass(frozen=True)
class ReferTo:
    """Let messages refer to this birth of the coordinator, in its version of the wire."""

    birth: Digest | None
    version: int


@dataclass(frozen=True)
class AdoptKey:
    """Let the key count that waited for the coordinator's word."""


@dataclass(frozen=True)
class Scan:
    """Look at the data folder; answered by `Scanned`."""


@dataclass(frozen=True)
class ComputePart:
    """Compute a part; answered by `PartComputed`, `PartEmpty` or `PartFailed`."""

    job: Job
    assignment: Assignment
    images: tuple[ImageToCount, ...]


@dataclass(frozen=True)
class Train:
    """Do a phase of a round, or look at the images where the order says so.

    Answered by `TrainingFinished`, `NoveltyChecked`, `NothingToTrain` or `TrainingFailed`.
    """

    job: TrainingJob
    assignment: Assignment
    images: tuple[ImageToCount, ...]
    """All images of classes that the head has, under the names of its rows."""
    memory: Digest | None
    publishes: bool = False
    """Whether gradients may be kept for the proxy; otherwise they end with the training."""


@dataclass(frozen=True)
class WorkForCohort:
    """Do what a step of a masked cohort needs secrets or a part for.

    Answered by `JoinPrepared`, `PartMasked`, `CohortRefused`, `MasksTold` or `CohortJobFailed`.
    """

    job: CohortJob
    assignment: Assignment
    part: ReadyPart
    undone: HiddenPart | None
    masking: Masking | None
    """None before the device has joined."""
    trust: CohortTrust


@dataclass(frozen=True)
class FetchFile:
    """Bring a file into the blob folder; answered by `FetchFinished` or `FetchFailed`."""

    offer: Offer


@dataclass(frozen=True)
class CancelFetch:
    """End the fetch of a file that is not needed any more; its answer says nothing new."""

    digest: Digest


@dataclass(frozen=True)
class ReadManifest:
    """Compare a manifest that is here with the files that are offered, before any is fetched.

    Answered by `ManifestRead`, `ModelRefused` or `FileDamaged`.
    """

    desired: DesiredModel


@dataclass(frozen=True)
class InstallModel:
    """Verify, load, self-test and switch.

    Answered by `ModelInstalled`, `ModelRefused`, `VariantLeft` or `FileDamaged`.
    """

    desired: DesiredModel
    check: ReleaseCheck | None = None
    """By what its release is judged once more; None where the owner gave no root."""
    variant: VariantName | None = None
    """The variant of the frozen part that it is to run on; None for the reference."""


@dataclass(frozen=True)
class ShadowModel:
    """Verify, load, self-test and keep as candidate, beside the model that runs.

    Answered by `CandidateKept`, `ModelRefused`, `VariantLeft` or `FileDamaged`.
    """

    desired: DesiredModel
    check: ReleaseCheck | None = None
    """As for `InstallModel`."""
    variant: VariantName | None = None
    """As for `InstallModel`."""


@dataclass(frozen=True)
class ForgetCandidate:
    """Empty the third slot; answered by `CandidateForgotten`."""


@dataclass(frozen=True)
class Compare:
    """Compare two models for a while; `ComparisonGoesOn`, `Compared` or `ComparisonFailed`."""

    pending: PendingComparison
    waiting: frozenset[ClassName] = frozenset()
    """Classes that the fleet does not know yet, whose folders say nothing of either model."""


@dataclass(frozen=True)
class ReadThrottling:
    """Ask how often the machine slowed itself down; answered by `ThrottlingRead`."""

    model: ActiveModel
    """The model of which that is said."""


@dataclass(frozen=True)
class ReadLocalClock:
    """Ask for the time of the day where the device is; answered by `LocalClockRead`."""


@dataclass(frozen=True)
class CheckActiveModel:
    """Self-test the model in the active slot; answered by `ModelFellBack` if it fails."""

    active: ActiveModel


@dataclass(frozen=True)
class Evaluate:
    """Measure the accuracy of the active model; answered by `Evaluated`."""

    active: ActiveModel
    detection: DetectionRules | None = None
    known: ScoringHead | None = None
    """The head at the detector's last batch."""
    lacks: tuple[ClassName, ...] = ()
    """The fleet's classes that the model does not know, by every name that they have."""


@dataclass(frozen=True)
class Measure:
    """Measure how unsure the active model is of new images; answered by `UncertaintyMeasured`."""

    active: ActiveModel
    images: tuple[ImageToCount, ...]
    known: ScoringHead | None
    """The head at the detector's last batch."""
    rules: DetectionRules


@dataclass(frozen=True)
class CleanFiles:
    """Remove files that neither these digests nor the slots name."""

    keep: frozenset[Digest]


@dataclass(frozen=True)
class Say:
    """Tell whoever runs the agent, in words."""

    text: str


@dataclass(frozen=True)
class WakeAt:
    """Give a `Ticked` no later than this time."""

    time: float


Request: TypeAlias = (
    Send
    | SendOutboxMessage
    | SendHeartbeat
    | SendHealth
    | ReferTo
    | AdoptKey
    | Scan
    | ComputePart
    | Train
    | WorkForCohort
    | FetchFile
    | CancelFetch
    | ReadManifest
    | InstallModel
    | ShadowModel
    | ForgetCandidate
    | Compare
    | ReadThrottling
    | ReadLocalClock
    | CheckActiveModel
    | Evaluate
    | Measure
    | CleanFiles
    | Say
    | WakeAt
)
