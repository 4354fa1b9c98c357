"""The agent's state: what the store holds, and the pieces of this run."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import get_type_hints

from fleetledger.device_agent.core.records import (
    CohortWork,
    ComparedPair,
    CountedImage,
    CountingState,
    Detecting,
    EnrollingState,
    Files,
    GivenPart,
    Height,
    HiddenPart,
    Listening,
    Masking,
    ModelProgress,
    ModelWait,
    NoveltyCheck,
    OutboxKey,
    OutboxMessage,
    OwnReports,
    PendingComparison,
    PresenceState,
    ReadyPart,
    Scanning,
    Sending,
    Settling,
    SignedNews,
    Training,
    Waited,
)
from fleetledger.device_agent.settings import (
    AgentDataSettings,
    AgentPrivacySettings,
    ModelSettings,
    PolicySettings,
)
from fleetledger.learning.numerics.detection import DetectionRules, Detector
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.presence import Capabilities, SeenCheckpoint
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId
from fleetledger.schemas.variants import VariantName
from fleetledger.schemas.wire import OWN, WireRange


@dataclass(frozen=True)
class LedgerTrust:
    """By whose key this device believes what is said of the ledger, and who it is itself."""

    fleet: FleetId
    device: DeviceId
    coordinator_key: VerifyKey


@dataclass(frozen=True)
class Pinned:
    """The root that the owner gave this device, and who it is itself."""

    device: DeviceId
    root: SignedRoot


@dataclass(frozen=True)
class AgentRules:
    """Settings that the rules decide by; times in seconds."""

    scan_seconds: float = AgentDataSettings.model_fields["scan_seconds"].default
    pause_seconds: float = 0.0
    """Until images go into another part of a stage that they do not fill; twice as long after each
    such part."""
    longest_pause_seconds: float = 0.0
    """What these pauses grow to."""
    settle_seconds: float = 1.0
    """Until the next scan, when files were perhaps still being written."""
    heartbeat_seconds: float = 15.0
    health_seconds: float | None = None
    """How often the coordinator is told how the machine is; None for never."""
    birth_shortest: float = 5.0
    birth_longest: float = 60.0
    message_shortest: float = 2.0
    message_longest: float = 60.0
    retry_shortest: float = 2.0
    """For fetches and computations that failed."""
    retry_longest: float = 60.0
    fetch_tries: int = 10
    """Failed fetches of one file after which a desired model is given up."""
    deadline_seconds: float = 3600 * ModelSettings().deadline_hours
    """After which a desired model that did not come is given up, counted from its arrival."""
    messages_under_way: int = 16
    problems_queued: int = 20
    evaluates: bool = False
    """Whether there is an evaluation folder."""
    detection: DetectionRules | None = field(default_factory=DetectionRules)
    """None where new images are not measured."""
    measured_at_once: int = 200
    """Of more new images than these a sample is measured."""
    policy: PolicySettings = field(default_factory=PolicySettings)
    """What may leave this device."""
    privacy: AgentPrivacySettings = field(default_factory=AgentPrivacySettings)
    """What hides its numbers."""
    samples: str = ""
    """What the data folder holds, as `[data] samples` says; empty where that does not matter."""
    trust: LedgerTrust | None = None
    """None where receipts are believed without a proof."""
    pinned: Pinned | None = None
    """None where models are installed without a release."""
    silent_seconds: float | None = None
    """After which the owner is told that nothing new came that is signed; None for never."""
    variants: tuple[VariantName, ...] = ()
    """Variants of a frozen part that models run on where they have one, best first."""


@dataclass(frozen=True)
class DeviceIdentity:
    """Who runs: the installation, this run of it, and what it can do."""

    installation: BootId
    boot: BootId
    capabilities: Capabilities
    formers: tuple[BootId, ...] = ()
    """The runs of this installation before this one, newest first."""
    tags: Mapping[TagName, TagValue] = field(default_factory=dict)
    """What the owner says of it."""
    wire: WireRange = OWN.range
    """Versions of the wire that it speaks."""


@dataclass
class AgentRecords:
    """What the store holds; rebuilt from it at start, changed by drafts that it has written."""

    parts: Mapping[PartKey, GivenPart] = field(default_factory=dict)
    counted: Mapping[Digest, Mapping[Digest, CountedImage]] = field(default_factory=dict)
    """Lineage, then digest of the image."""
    told: Mapping[Digest, Mapping[Digest, str]] = field(default_factory=dict)
    """Lineage, then digest of an image that was in a payload, in the sum or not: its companions."""
    outbox: Mapping[OutboxKey, OutboxMessage] = field(default_factory=dict)
    """In the order in which the messages were written."""
    unusable: Mapping[Digest, str] = field(default_factory=dict)
    """Images that could not be decoded, with the reason."""
    unanswered: Mapping[Digest, Mapping[Digest, str]] = field(default_factory=dict)
    """Frozen model, then images of which it makes no finite features, with the reason."""
    nothing: Set[int] = field(default_factory=set)
    """Stages for which the device said that it has nothing."""
    answered: Set[int] = field(default_factory=set)
    """Rounds that this device has answered, or has nothing for."""
    memory: Digest | None = None
    """The file with what the method remembers on this device, such as its exemplars."""
    memory_lineage: Digest | None = None
    """The network that it was written for; None where that was not noted."""
    exemplars: int = 0
    """How many of them there are, as the method said with its last answer."""
    look: NoveltyCheck | None = None
    """The newest, of methods that look for new tasks by themselves."""
    ready: Mapping[PartKey, ReadyPart] = field(default_factory=dict)
    """What is to be given behind masks, and was not told shares of yet."""
    masking: Masking | None = None
    """What the device gives in a cohort just now."""
    hidden: Mapping[PartKey, HiddenPart] = field(default_factory=dict)
    """Parts in sums of cohorts, by which they can be taken out again."""
    joins: int = 0
    """How often the device joined for a cohort."""
    dead_letters: int = 0
    assignment: Assignment | None = None
    desired: DesiredModel | None = None
    acted: int | None = None
    """Action of the last desired model that was brought to an end, good or bad."""
    waited: Waited | None = None
    """How long the newest desired model has been waited for."""
    ledger_boot: BootId | None = None
    """Boot of the coordinator that gave the newest action."""
    next_part: int | None = None
    """A free part number, as the coordinator said; None before the first welcome ever."""
    status: ModelStatus | None = None
    """The last report about a desired model."""
    evaluation: Evaluation | None = None
    comparing: PendingComparison | None = None
    """What is to be compared next."""
    compared: ComparedPair | None = None
    """What was compared last."""
    comparisons: int = 0
    """The number of the next comparison."""
    settling: Settling | None = None
    """The model that was switched to last, where it is to be said that it has settled."""
    detector: Detector = field(default_factory=Detector)
    measured: Set[Digest] = field(default_factory=set)
    """Images that were measured and are not counted."""
    reported: Set[ClassName] = field(default_factory=set)
    """Class names that a transition has told the coordinator."""
    transitions: int = 0
    """The number of the next transition."""
    seen: SeenCheckpoint | None = None
    """The newest state of the ledger that was proven to this device."""
    heard: SignedNews = field(default_factory=SignedNews)
    """The most that the coordinator has signed."""
    silent: float = 0.0
    """Seconds in which the agent ran and nothing new came that is signed, as noted last."""
    root: SignedRoot | None = None
    """The newest root that was taken; None while it is the one that the owner gave."""
    heights: Mapping[str, Height] = field(default_factory=dict)
    """The highest release that was taken, by the hash of the key that signed it."""
    release: SignedRelease | None = None
    """Of the model that was installed last."""
    left_variants: Mapping[Digest, str] = field(default_factory=dict)
    """Files of variants that did not run here, with the reason."""

    @property
    def last_action(self) -> int:
        """The highest action seen, or -1."""
        actions = [item.action for item in (self.assignment, self.desired) if item is not None]
        return max(actions, default=-1)

    def free_part(self) -> int:
        """Return a part number that was never used; the coordinator's word must be known."""
        assert self.next_part is not None
        used = (*(key.part for key in self.parts), *self.answered)
        return max(self.next_part, 1 + max(used, default=-1))


@dataclass
class AgentState:
    """Everything that the rules decide on."""

    rules: AgentRules
    identity: DeviceIdentity
    records: AgentRecords = field(default_factory=AgentRecords)
    presence: PresenceState = field(default_factory=PresenceState)
    enrolling: EnrollingState = field(default_factory=EnrollingState)
    scanning: Scanning = field(default_factory=Scanning)
    work: CountingState = field(default_factory=CountingState)
    training: Training = field(default_factory=Training)
    cohorts: CohortWork = field(default_factory=CohortWork)
    detecting: Detecting = field(default_factory=Detecting)
    sending: Sending = field(default_factory=Sending)
    files: Files = field(default_factory=Files)
    models: ModelProgress = field(default_factory=ModelProgress)
    waiting: ModelWait = field(default_factory=ModelWait)
    listening: Listening = field(default_factory=Listening)
    told: OwnReports = field(default_factory=OwnReports)

    def replace(self, piece: object) -> None:
        """Put a new piece of this run in the place of the former one."""
        setattr(self, _PIECES[type(piece)], piece)


_PIECES: dict[type, str] = {
    kind: name
    for name, kind in get_type_hints(AgentState).items()
    if name not in ("rules", "identity", "records")
}
PIECES = tuple(_PIECES)
"""What changes by being replaced, and is not written down."""
