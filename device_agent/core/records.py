"""What the state is made of: parts, counted images, messages, and the pieces of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from fleetledger.schemas.cohorts import CohortJoin, CohortReveal, Joining
from fleetledger.schemas.contributions import Contribution, HeldPart, Nothing, PartKey, Withdrawal
from fleetledger.schemas.enrolment import Enrolment, KeyRotation
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.reports import Problem, Transition
from fleetledger.schemas.rollouts import Mode, ModelComparison
from fleetledger.schemas.rounds import TRAIN, Observation
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest
from fleetledger.schemas.variants import VariantName
from fleetledger.schemas.wire import WireRange

RESTLESS_SCANS = 10
"""Of so many scans in a row that find files being written, the last one is counted anyway."""

About = Literal[
    "contribution",
    "withdrawal",
    "nothing",
    "transition",
    "comparison",
    "gradients",
    "cohort-join",
    "cohort-reveal",
]
OutboxBody: TypeAlias = (
    Contribution
    | Withdrawal
    | Nothing
    | Transition
    | ModelComparison
    | PrototypeGradients
    | CohortJoin
    | CohortReveal
)
SEEDS, SHARES = 1, 2
"""What a member of a cohort tells of others, as messages and receipts number it."""
PartState = Literal["waiting", "accepted", "refused", "withdrawn"]


@dataclass(frozen=True)
class GivenPart:
    """The newest revision of a part, as this device has it."""

    revision: int
    state: PartState
    lineage: Digest | None
    """None for a part that an earlier installation made and this one withdrew."""
    payload: Digest | None
    """None when the part was withdrawn."""


@dataclass(frozen=True)
class CountedImage:
    """An image that is in a part, and the class under which it was counted."""

    key: PartKey
    class_name: ClassName


@dataclass(frozen=True)
class Sighting:
    """Where the last scan found an image."""

    path: str
    """Relative to the data folder."""
    class_name: ClassName
    others: tuple[ClassName, ...] = ()
    """Further classes that its mask shows."""

    @property
    def shown(self) -> tuple[ClassName, ...]:
        """Every class that it shows, that under which it counts first."""
        return (self.class_name, *self.others)


class OutboxKey(NamedTuple):
    """Names a message: one per part and kind of message.

    For 'nothing' the part is 0, or the round it is about; for a transition its number; for a
    comparison its number, with the rollout's as stage; for gradients, which go to the proxy, the
    round in which they were made. What is told in a cohort has its number as part, and as stage
    `SEEDS` or `SHARES`.
    """

    about: About
    key: PartKey

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.about == "comparison":
            return f"comparison {self.key.part} of rollout {self.key.stage}"
        if self.about == "cohort-reveal":
            what = "seeds of the silent" if self.key.stage == SEEDS else "shares"
            return f"what this device told of the {what} in cohort {self.key.part}"
        return f"{self.about} of stage {self.key.stage}, part {self.key.part}"

    @property
    def fields(self) -> dict[str, Any]:
        """What a line of the log has of it."""
        stage = "rollout" if self.about == "comparison" else "stage"
        return {stage: self.key.stage, "part": self.key.part, "about": self.about}


@dataclass(frozen=True)
class OutboxMessage:
    """A message that stays in the outbox until its receipt arrives."""

    revision: int
    body: OutboxBody


@dataclass(frozen=True)
class ReadyPart:
    """What is to be given behind masks: a part, or an answer to a round."""

    revision: int
    method: str
    lineage: Digest
    payload: Digest | None
    """The file of the part itself, which never leaves the device; None where only what was given
    before is taken out."""
    weight: int = 1
    """Samples of an answer to a round."""
    round: int | None = None
    phase: str = TRAIN


@dataclass(frozen=True)
class HiddenPart:
    """What of a part is in the sum of a cohort, or told to be."""

    cohort: int
    payload: Digest | None
    """The part's file; None where it was taken out."""
    lineage: Digest
    members: int = 0
    """How many devices are in the sum."""


@dataclass(frozen=True)
class Masking:
    """What the device gives in a cohort, from its word that it is ready until it told shares."""

    key: PartKey
    part: ReadyPart
    undone: HiddenPart | None
    """What the words take out again."""
    serial: int
    """Which of all that this installation joined for; its secrets follow from it."""
    joining: Joining
    number: int | None = None
    """The cohort, once the device was named in one."""
    action: int = -1
    """Action of the assignment in which it was named last."""
    cohort: Digest | None = None
    """Name of the cohort that was checked, and to which the words were masked."""
    share: str = ""
    """Its own share of its own mask, hexadecimal."""
    silent: tuple[DeviceId, ...] = ()
    """Members of which it told the seed: their masks are known, and shares of them are not told."""
    fault: str = ""
    """Why the device gives nothing in this cohort."""


@dataclass(frozen=True)
class CohortJob:
    """What the worker does for a cohort; its result is taken only while this is wanted."""

    step: Literal["join", "mask", "seeds", "shares"]
    key: PartKey
    serial: int
    silent: tuple[DeviceId, ...] = ()


@dataclass(frozen=True)
class SignedNews:
    """The most that the coordinator's key has signed, beside checkpoints and actions."""

    boot: BootId | None = None
    """Its newest run that was believed."""
    ledger_size: int = 0
    corrections: int = 0
    """How often its operator had set the calendar right by then."""
    time_ns: int = 0
    """The latest time that it said since, in nanoseconds since 1970."""

    @property
    def moment(self) -> tuple[int, int]:
        """By what one time is later than another."""
        return (self.corrections, self.time_ns)


class News(NamedTuple):
    """All of what is signed that only grows; while it stays the same, nothing new was heard."""

    heard: SignedNews = SignedNews()
    seen_size: int = 0
    action: int = -1


@dataclass(frozen=True)
class Try:
    """How often something was tried, and when it is due again."""

    count: int
    due: float


@dataclass(frozen=True)
class ActiveModel:
    """The model in the active slot."""

    version: int
    manifest: Digest


@dataclass(frozen=True)
class PendingComparison:
    """A candidate that is to be compared with another model, and for which group of a rollout."""

    rollout: int
    group: int
    mode: Mode
    candidate: ActiveModel
    beside: ActiveModel
    """The active model; after a switch the former one."""

    @property
    def pair(self) -> ComparedPair:
        """By which it is known that the same two were compared."""
        return ComparedPair(self.rollout, self.candidate.manifest, self.beside.manifest)


class ComparedPair(NamedTuple):
    """Two models that were compared in a rollout."""

    rollout: int
    candidate: Digest
    beside: Digest


@dataclass(frozen=True)
class Settling:
    """A model that was switched to, until it has run for long enough."""

    model: ActiveModel
    previous: int | None
    """The version in the other slot."""
    seconds: float
    """How long that is."""
    lived: float = 0.0
    """How long it has run, as noted last."""
    throttled: int | None = None
    """How often the machine had slowed itself down before the switch."""
    told: bool = False
    """Whether it was said that the model has settled."""


class Height(NamedTuple):
    """The highest release that was taken of one release key."""

    number: int
    release: Digest
    """What was signed; another one of the same number is none."""


@dataclass(frozen=True)
class Waited:
    """How long a desired model has been waited for, and when that was written down."""

    action: int
    seconds: float
    time_ns: int
    """Nanoseconds since 1970 by this device's calendar."""


@dataclass(frozen=True)
class ImageToCount:
    """An image that goes into a part: where it is, what its bytes are, what it shows."""

    path: str
    digest: Digest
    class_name: ClassName
    told: str = ""
    """Names the images that were in the same payloads (`core.companions`); empty for none."""


@dataclass(frozen=True)
class Job:
    """A part that the worker computes; its result is taken only while this job is wanted."""

    key: PartKey
    revision: int
    method: str
    lineage: Digest
    masked: bool = False
    """Whether it is given behind masks."""


@dataclass(frozen=True)
class NoveltyCheck:
    """What the fleet's model made of the current images, and in which round."""

    number: int
    observation: Observation


@dataclass(frozen=True)
class TrainingJob:
    """One phase of a round that the worker computes; its result is taken only while it is asked."""

    key: PartKey
    """The stage, and the round's number as part."""
    phase: str
    method: str
    lineage: Digest
    observes: bool = False
    """Whether the device is asked only to look at its images."""
    masked: bool = False
    """Whether the answer is given behind masks."""


@dataclass(frozen=True)
class PresenceState:
    """The connection, and what coordinator and device know of each other in it."""

    connected: bool = False
    coordinator: BootId | None = None
    """Boot of the coordinator that serves; None while it is away."""
    beside: tuple[BootId, ...] = ()
    """Boots of coordinators that run side by side, of which none is believed to lead."""
    wire: WireRange | None = None
    """Versions of the wire that the coordinator speaks; None if it was not heard."""
    held_by: BootId | None = None
    """Boot of the coordinator that `held` is from."""
    welcomed_by: BootId | None = None
    """Boot of the coordinator whose welcome is complete."""
    held: Mapping[PartKey, HeldPart] = field(default_factory=dict)
    """What the coordinator is known to hold, from welcomes and from receipts since the birth."""
    birth: Try = Try(0, 0.0)
    spread_seconds: float = 0.0
    """Over how long the coordinator asks devices to spread their births."""
    heartbeat_due: float = 0.0
    health_due: float = 0.0
    doubted: bool = False
    """Whether the owner was told in this connection of an old birth of the coordinator."""

    @property
    def served(self) -> bool:
        """Whether there is a coordinator at the other end."""
        return self.connected and self.coordinator is not None

    @property
    def welcomed(self) -> bool:
        """Whether the coordinator that serves has said what it holds from this device."""
        return self.served and self.welcomed_by == self.coordinator


@dataclass(frozen=True)
class EnrollingState:
    """What the coordinator is to confirm of this device's key."""

    asks: Enrolment | KeyRotation | None = None
    first: bool = False
    """Whether the device has no other key until then."""
    tried: Try = Try(0, 0.0)

    @property
    def holds_back(self) -> bool:
        """Whether nothing else is said before."""
        return self.first and self.asks is not None


@dataclass(frozen=True)
class Scanning:
    """What is on the disk, as of the last scan."""

    images: Mapping[Digest, Sighting] = field(default_factory=dict)
    waiting: Mapping[ClassName, int] = field(default_factory=dict)
    """Images per class that the assignment does not know."""
    running: bool = False
    due: float = 0.0
    begun_for: int | None = None
    """Action of the assignment that was known when the running scan began."""
    done_for: int | None = None
    """The same for the scan that `images` comes from; None before the first scan."""
    restless: int = 0
    """Scans in a row that found files being written, counted from 1 to `RESTLESS_SCANS`."""
    trouble: str = ""
    """Why the last scan failed; empty if it did not."""
    problems: tuple[Problem, ...] = ()
    """What the owner should mend, as of the last scan."""

    @property
    def at_rest(self) -> bool:
        """Whether to count now: nothing is being written, or that has gone on for long enough."""
        return self.restless in (0, RESTLESS_SCANS)


@dataclass(frozen=True)
class CountingState:
    """What the worker computes."""

    job: Job | None = None
    images: tuple[ImageToCount, ...] = ()
    """Images of the job; kept here so that only their digests need to come back."""
    settled: bool = False
    """There was nothing to compute when the rules last looked, and nothing has changed since."""
    retry: Try = Try(0, 0.0)
    trouble: str = ""
    """Why the last part could not be computed; empty if it could."""
    gave_at: float | None = None
    """When this run made its last new part, if images did not fill it; None while nothing waits."""
    joins_at: float = 0.0
    """When images go into another part that they do not fill; 0 where none wait for it."""


@dataclass(frozen=True)
class Training:
    """What the worker trains."""

    job: TrainingJob | None = None
    retry: Try = Try(0, 0.0)
    trouble: str = ""
    """Why the last try failed, while it is tried again."""


@dataclass(frozen=True)
class CohortWork:
    """What the worker does for a cohort."""

    job: CohortJob | None = None
    retry: Try = Try(0, 0.0)
    trouble: str = ""
    """Why the last try failed, while it is tried again."""


@dataclass(frozen=True)
class Detecting:
    """How far the measuring of new images has come."""

    running: bool = False
    settled: bool = False
    """There was nothing to measure when the rules last looked, and nothing has changed since."""
    began: float | None = None
    """When the rules first looked in this run of the agent."""
    measured: int = 0
    """Images that were measured since."""
    trouble: str = ""
    """Why images could not be measured; empty once they were."""


@dataclass(frozen=True)
class Deferral:
    """A message that the coordinator asked to send again later."""

    since: float
    """When it did so first, in seconds of the rules' clock."""
    reason: str


@dataclass(frozen=True)
class Sending:
    """Messages that were sent in this connection and have no receipt yet."""

    tries: Mapping[OutboxKey, Try] = field(default_factory=dict)
    deferred: Mapping[OutboxKey, Deferral] = field(default_factory=dict)
    """Messages that the coordinator put off, over connections."""


@dataclass(frozen=True)
class Files:
    """Files of models in the local blob folder, and those on their way."""

    here: frozenset[Digest] = frozenset()
    fetching: Offer | None = None
    tries: Mapping[Digest, Try] = field(default_factory=dict)
    littered: bool = False
    """Files may lie around that nothing needs any more."""
    starved: Try = Try(0, 0.0)
    """How often in a row the disk here refused a file; none is fetched before it is due."""
    trouble: str = ""
    """Why a file did not come, until one is whole and here."""


@dataclass(frozen=True)
class ModelProgress:
    """The model that runs, and what is being done about another one."""

    active: ActiveModel | None = None
    variant: VariantName | None = None
    """The variant of the frozen part that it runs on; None for the reference."""
    installing: DesiredModel | None = None
    reading: bool = False
    """The manifest of the open action is being compared with what is offered."""
    read: int | None = None
    """The action whose manifest names the files that are offered."""
    evaluating: bool = False
    evaluate: bool = False
    """The active model is to be evaluated."""
    unmeasured: str = ""
    """Why the last evaluation gave nothing; empty if it did."""
    candidate: ActiveModel | None = None
    """The model in the third slot."""
    comparing: bool = False
    """The worker compares two models."""
    asking_clock: bool = False
    """Whether it is time to switch is being asked."""
    clock_due: float = 0.0
    """Before this it is not."""
    settling_since: float = 0.0
    """When it was last noted how long the active model has run, by the clock of this run."""
    settling_ends: bool = False
    """The machine is being asked how the active model has done."""
    retry: Try = Try(0, 0.0)


@dataclass(frozen=True)
class ModelWait:
    """When it was last written down how long a desired model has been waited for."""

    since: float = 0.0
    """By the clock of this run."""
    time_ns: int = 0
    """The same moment by the calendar, in nanoseconds since 1970."""


@dataclass(frozen=True)
class Listening:
    """Since when nothing new came that the coordinator has signed, as far as it is not noted."""

    since: float = 0.0
    """By the clock of this run."""
    news: News | None = None
    told: bool = False
    """Whether the owner was told of the silence."""


@dataclass(frozen=True)
class OwnReports:
    """What the coordinator has been told in this run, so that it is told once."""

    waiting: Mapping[ClassName, int] = field(default_factory=dict)
    status: bool = False
    evaluation: bool = False
    problems: frozenset[str] = frozenset()
    """Texts of problems that were told, or wait to be."""
    queue: tuple[Problem, ...] = ()
    """Problems to tell once connected."""
    untold: int = 0
    """Problems left out of the queue because it was full."""
    recent: tuple[str, ...] = ()
    """Texts of the newest problems, told or not, for the log."""
    happened: tuple[Problem, ...] = ()
    """The newest that are over by having happened, for `agent status`."""
    images_asked: str = ""
    """What was said here of what becomes of this device's images."""
