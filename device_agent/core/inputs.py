"""What can happen to an agent: messages, results of the worker, files, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from fleetledger.device_agent.core.records import (
    ActiveModel,
    CohortJob,
    Job,
    PendingComparison,
    ReadyPart,
    TrainingJob,
)
from fleetledger.learning.numerics.detection import ScoringHead
from fleetledger.learning.numerics.shots import Projections
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortReveal, Joining
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import CoordinatorBirth, CoordinatorHeartbeat, Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.reports import Evaluation, Problem
from fleetledger.schemas.rollouts import ModelComparison
from fleetledger.schemas.rounds import Observation, RoundAnswer
from fleetledger.schemas.values import BootId, ClassName, Digest
from fleetledger.schemas.variants import VariantName


@dataclass(frozen=True)
class Started:
    """The agent starts: the active slot's model, and the files that lie in the blob folder."""

    active: ActiveModel | None = None
    files: frozenset[Digest] = frozenset()
    time_ns: int = 0
    """Nanoseconds since 1970 by this device's clock; of 0 nothing has expired."""
    candidate: ActiveModel | None = None
    """The third slot's model."""
    variant: VariantName | None = None
    """The variant of the frozen part that the active one runs on; None for the reference."""


@dataclass(frozen=True)
class AgentConnected:
    """The control connection is up (again)."""

    forgotten: bool = False
    """Whether the broker knew nothing of the one before: it may have forgotten all devices."""


@dataclass(frozen=True)
class AgentDisconnected:
    """The control connection is lost; it comes back by itself."""


@dataclass(frozen=True)
class CoordinatorBorn:
    """The coordinator's retained birth."""

    boot: BootId
    birth: CoordinatorBirth
    said: Digest | None = None
    """Id of the message, to which what this device says refers from then on."""


@dataclass(frozen=True)
class CoordinatorBeat:
    """The coordinator says that it is there; perhaps a recording."""

    boot: BootId
    heartbeat: CoordinatorHeartbeat


@dataclass(frozen=True)
class CoordinatorDied:
    """The coordinator's retained death."""

    boot: BootId


@dataclass(frozen=True)
class Welcomed:
    """One page of the answer to a birth."""

    coordinator: BootId
    welcome: Welcome


@dataclass(frozen=True)
class KeyEnrolled:
    """The coordinator says which key of this device counts."""

    key: VerifyKey


@dataclass(frozen=True)
class Assigned:
    """An assignment arrived; perhaps an old one."""

    coordinator: BootId
    assignment: Assignment


@dataclass(frozen=True)
class DesiredArrived:
    """A desired model arrived; perhaps an old one."""

    coordinator: BootId
    desired: DesiredModel
    time_ns: int = 0
    """Nanoseconds since 1970 by this device's clock, when it came."""


@dataclass(frozen=True)
class ReceiptArrived:
    """The answer to a message, of the one to whom it went; perhaps a repeat."""

    receipt: Receipt


@dataclass(frozen=True)
class Image:
    """An image that a scan found."""

    path: str
    digest: Digest
    class_name: ClassName
    others: tuple[ClassName, ...] = ()
    """Further classes that its mask shows, sorted; `class_name` is that with most pixels."""


@dataclass(frozen=True)
class Scanned:
    """A scan ended: all images that are readable and at rest, sorted by path."""

    images: tuple[Image, ...]
    problems: tuple[Problem, ...] = ()
    unsettled: int = 0
    """Files that are perhaps still being written; left for a later scan."""
    seconds: float = 0.0
    """How long it took."""


@dataclass(frozen=True)
class ScanFailed:
    """The data folder could not be read at all; what the last scan found still stands."""

    reason: str


@dataclass(frozen=True)
class PartComputed:
    """The worker computed the part of a job and put its payload on disk, or attached it."""

    job: Job
    contribution: Contribution
    """Its samples are as the payload counts them: with noise, where the method adds it."""
    used: frozenset[Digest]
    """Images that are in the payload."""
    unusable: tuple[tuple[Digest, str], ...] = ()
    """Images that do not decode, with the reason; they are in no payload."""
    attached: bytes | None = None
    cells: Mapping[Digest, int] = field(default_factory=dict)
    """The group of its class that an image was summed in, where classes are dealt to groups."""


@dataclass(frozen=True)
class PartEmpty:
    """None of a job's images could be used."""

    job: Job
    unusable: tuple[tuple[Digest, str], ...] = ()


@dataclass(frozen=True)
class SamplesUnanswered:
    """A frozen model makes no finite features of images that can be read."""

    frozen: Digest
    images: tuple[Digest, ...]


@dataclass(frozen=True)
class PartFailed:
    """The job could not be done; it is tried again later."""

    job: Job
    reason: str


@dataclass(frozen=True)
class MadeGradients:
    """Gradients for the proxy that came with an answer; on disk, or attached."""

    payload: Digest
    payload_bytes: int
    attached: bytes | None = None
    offer: Offer | None = None


@dataclass(frozen=True)
class TrainingFinished:
    """The worker did a phase of a round; payload and memory are on disk, or attached."""

    job: TrainingJob
    contribution: Contribution
    memory: Digest | None = None
    unusable: tuple[tuple[Digest, str], ...] = ()
    attached: bytes | None = None
    gradients: MadeGradients | None = None

    @property
    def answer(self) -> RoundAnswer:
        """What the contribution says of the training."""
        assert self.contribution.round is not None
        return self.contribution.round


@dataclass(frozen=True)
class JoinPrepared:
    """What a device says of itself to be in a cohort."""

    job: CohortJob
    part: ReadyPart
    """What it committed itself to."""
    joining: Joining


@dataclass(frozen=True)
class CohortRefused:
    """A cohort is not what this device asks of one; it gives nothing in it."""

    job: CohortJob
    reason: str


@dataclass(frozen=True)
class PartMasked:
    """A cohort was checked, and words are masked for it; on disk, or attached."""

    job: CohortJob
    contribution: Contribution
    cohort: Digest
    """Name of the cohort."""
    share: str
    """This device's share of its own mask, hexadecimal."""
    attached: bytes | None = None


@dataclass(frozen=True)
class MasksTold:
    """What is to be told of other members."""

    job: CohortJob
    reveal: CohortReveal
    members: int
    """How many devices are in the sum."""
    trouble: str = ""
    """Why nothing is told of some; empty where all is."""


@dataclass(frozen=True)
class CohortJobFailed:
    """A job for a cohort could not be done; it is tried again later."""

    job: CohortJob
    reason: str


@dataclass(frozen=True)
class NoveltyChecked:
    """The worker looked at the images with the fleet's model; the memory is on disk."""

    job: TrainingJob
    observation: Observation
    memory: Digest | None = None
    unusable: tuple[tuple[Digest, str], ...] = ()


@dataclass(frozen=True)
class NothingToTrain:
    """There is no data for a phase of a round, or for a look."""

    job: TrainingJob
    unusable: tuple[tuple[Digest, str], ...] = ()


@dataclass(frozen=True)
class TrainingFailed:
    """A phase of a round could not be done."""

    job: TrainingJob
    reason: str
    hopeless: bool = False
    """It would end in the same way if it were tried again."""


@dataclass(frozen=True)
class FetchFinished:
    """A file is whole and in the blob folder."""

    digest: Digest


@dataclass(frozen=True)
class FetchFailed:
    """A file could not be fetched; it is tried again later."""

    digest: Digest
    reason: str
    full_disk: bool = False
    """It was this device's disk that refused it."""


@dataclass(frozen=True)
class FilesListed:
    """Files that lie in the blob folder after a cleaning."""

    files: frozenset[Digest]


@dataclass(frozen=True)
class FileDamaged:
    """A file is gone or is not what its digest says."""

    digest: Digest


@dataclass(frozen=True)
class ManifestRead:
    """The manifest of a desired model names exactly the files that are offered with it."""

    action: int


@dataclass(frozen=True)
class ModelInstalled:
    """A desired model passed its self-test and is in the active slot."""

    action: int
    active: ActiveModel
    previous_version: int | None = None
    release: SignedRelease | None = None
    """By which it was installed; None where the owner gave no root."""
    former: ActiveModel | None = None
    """The model in the other slot now."""
    throttled: int | None = None
    """How often the machine had slowed itself down by then; None where it cannot tell."""
    variant: VariantName | None = None
    """The variant of the frozen part that it runs on; None for the reference."""


@dataclass(frozen=True)
class VariantLeft:
    """A variant of a frozen part does not run here as it should; nothing is said of the model."""

    name: VariantName
    frozen: Digest
    """Its file."""
    reason: str
    runs: ActiveModel | None = None
    """The active model, which runs on the reference from here on; None where one was to be
    installed."""


@dataclass(frozen=True)
class CandidateKept:
    """A desired model passed its self-test and is in the third slot; what ran goes on running."""

    action: int
    candidate: ActiveModel


@dataclass(frozen=True)
class CandidateForgotten:
    """The third slot is empty."""


@dataclass(frozen=True)
class ComparisonGoesOn:
    """Two models were compared for a while, and there are images left."""

    pending: PendingComparison


@dataclass(frozen=True)
class Compared:
    """Two models were compared; the number of the comparison is not its own yet."""

    pending: PendingComparison
    comparison: ModelComparison


@dataclass(frozen=True)
class ComparisonFailed:
    """The candidate cannot be compared, because it does not answer."""

    pending: PendingComparison
    reason: str


@dataclass(frozen=True)
class ThrottlingRead:
    """How often the machine slowed itself down since it was switched on, if it can tell."""

    model: ActiveModel
    throttled: int | None


@dataclass(frozen=True)
class LocalClockRead:
    """The time of the day where the device is."""

    minute: int
    """After midnight."""


@dataclass(frozen=True)
class ModelRefused:
    """A desired model was not installed; the former one stays."""

    action: int
    rolled_back: bool
    """It loaded and failed its self-test, rather than not loading at all."""
    reason: str


@dataclass(frozen=True)
class ModelFellBack:
    """The model in the active slot failed at start; the other slot is active, if it works."""

    failed: ActiveModel
    active: ActiveModel | None
    reason: str
    variant: VariantName | None = None
    """The variant of the frozen part that the other one runs on."""


@dataclass(frozen=True)
class EvaluationAsked:
    """Somebody wants the active model evaluated again."""


@dataclass(frozen=True)
class Evaluated:
    """The evaluation ended; None when there was nothing to evaluate on, with the reason."""

    evaluation: Evaluation | None
    reason: str = ""
    head: ScoringHead | None = None
    uncertainties: tuple[float, ...] = ()
    """Value of each image for the detector, class by class; of `head`."""
    classes: tuple[ClassName, ...] = ()
    """The class of each of these images; empty of scenes."""
    projections: Projections | None = field(default=None, compare=False)
    """(n, BITS) of these images; None where each is its own shot."""


@dataclass(frozen=True)
class UncertaintyMeasured:
    """New images were measured with `head`; None when they could not be, with the reason."""

    head: ScoringHead | None
    images: tuple[Digest, ...] = ()
    values: tuple[float, ...] = ()
    """Of those images that could be read."""
    projections: Projections | None = field(default=None, compare=False)
    """(n, BITS) of the same; None where each is its own shot."""
    reason: str = ""


@dataclass(frozen=True)
class Noticed:
    """The work met something that the owner should mend; it went on without."""

    problem: Problem


@dataclass(frozen=True)
class Ticked:
    """Nothing happened; time has passed, or the last input left something to do."""


Input: TypeAlias = (
    Started
    | AgentConnected
    | AgentDisconnected
    | CoordinatorBorn
    | CoordinatorBeat
    | CoordinatorDied
    | Welcomed
    | KeyEnrolled
    | Assigned
    | DesiredArrived
    | ReceiptArrived
    | Scanned
    | ScanFailed
    | PartComputed
    | PartEmpty
    | SamplesUnanswered
    | PartFailed
    | TrainingFinished
    | JoinPrepared
    | CohortRefused
    | PartMasked
    | MasksTold
    | CohortJobFailed
    | NoveltyChecked
    | NothingToTrain
    | TrainingFailed
    | FetchFinished
    | FetchFailed
    | FileDamaged
    | FilesListed
    | ManifestRead
    | ModelInstalled
    | VariantLeft
    | CandidateKept
    | CandidateForgotten
    | ComparisonGoesOn
    | Compared
    | ComparisonFailed
    | ThrottlingRead
    | LocalClockRead
    | ModelRefused
    | ModelFellBack
    | EvaluationAsked
    | Evaluated
    | UncertaintyMeasured
    | Noticed
    | Ticked
)
