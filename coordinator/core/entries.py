"""The kinds of ledger entry and what each records; everything that decides the model is here."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from coordinator.core.entry import COORDINATOR, OPERATOR, EntryBody, NewEntry
from coordinator.core.key_entries import (
    DeviceEnrolled,
    DeviceInvited,
    DeviceKeyRevoked,
    DeviceKeyRotated,
)
from coordinator.core.lineage_entries import (
    BackboneImported,
    FrozenBackbone,
    Lineage,
    NetworkImported,
    Successor,
)
from coordinator.core.old_model_entries import OldModel, OldModelChosen, OldModelMissed
from coordinator.core.release_entries import ReleaseSigned, RootPublished
from coordinator.core.retraction_entries import ContributionRetracted, DescentMarked
from coordinator.core.round_entries import (
    RoundClosed,
    RoundFailed,
    RoundOpened,
    RoundsResumed,
    RoundsStopped,
    WeightsAveraged,
    WeightsPruned,
)
from coordinator.core.time_entries import ClockCorrected, DevicesHeard, DevicesSilent
from coordinator.core.twin_entries import DeviceDoubled, DeviceSettled
from schemas.canonical import canonical_json
from schemas.contributions import PartKey
from schemas.models import Parity
from schemas.offers import Offer
from schemas.presence import Capabilities
from schemas.reports import ClassResult, Uncertainty
from schemas.rounds import Observation, RoundAnswer, RoundNumber
from schemas.values import BootId, ClassName, DeviceId, Digest

TAKEN_BACK = "taken back by the operator"

# Other rooms find every kind here, wherever it is written down.
__all__ = [
    "COORDINATOR",
    "OPERATOR",
    "BackboneImported",
    "ClockCorrected",
    "ContributionRetracted",
    "DescentMarked",
    "DeviceDoubled",
    "DeviceEnrolled",
    "DeviceInvited",
    "DeviceKeyRevoked",
    "DeviceKeyRotated",
    "DeviceSettled",
    "DevicesHeard",
    "DevicesSilent",
    "EntryBody",
    "FrozenBackbone",
    "Lineage",
    "NetworkImported",
    "NewEntry",
    "OldModel",
    "OldModelChosen",
    "OldModelMissed",
    "ReleaseSigned",
    "RootPublished",
    "RoundClosed",
    "RoundFailed",
    "RoundOpened",
    "RoundsResumed",
    "RoundsStopped",
    "Successor",
    "WeightsAveraged",
    "WeightsPruned",
]


class DeviceAdmitted(EntryBody):
    """The operator lets a device take part."""

    kind: ClassVar[str] = "device.admitted"
    device: DeviceId


class DeviceBorn(EntryBody):
    """A device connected with a new boot."""

    kind: ClassVar[str] = "device.born"
    boot: BootId
    installation: BootId
    capabilities: Capabilities


class ClassNamed(EntryBody):
    """The registry gave a class its index."""

    kind: ClassVar[str] = "class.named"
    name: ClassName
    index: int = Field(ge=0)


class ClassRenamed(EntryBody):
    """A class has a new name; the old one stays as an alias."""

    kind: ClassVar[str] = "class.renamed"
    old: ClassName
    new: ClassName


class ClassMerged(EntryBody):
    """Two names mean one class: `source` becomes an alias of `target`."""

    kind: ClassVar[str] = "class.merged"
    source: ClassName
    target: ClassName


class StageOpened(EntryBody):
    """New classes are to be learned."""

    kind: ClassVar[str] = "stage.opened"
    stage: int = Field(ge=1)
    class_names: tuple[ClassName, ...]
    reason: str = "operator"


class StageClosed(EntryBody):
    """The stage has what it waited for; late contributions still count."""

    kind: ClassVar[str] = "stage.closed"
    stage: int
    reason: str
    answered: int
    expected: int


class ContributionAccepted(EntryBody):
    """A device's part is in; an earlier revision of the same part is replaced."""

    kind: ClassVar[str] = "contribution.accepted"
    key: PartKey
    revision: int
    payload_kind: str
    payload: Digest
    payload_bytes: int
    samples: dict[ClassName, int]
    method: str
    lineage: Digest
    replaces: int | None = None
    """Ledger index of the entry that this one replaces."""
    round: RoundNumber | None = None
    """The round that it answers, where the fleet learns in rounds."""
    late: bool = False
    """It came after its round was closed: it is recorded, and left out of that round."""
    answer: RoundAnswer | None = None
    """What the device said of its training, such as its mean loss."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The payload."""
        return (self.payload,)


class ContributionWithdrawn(EntryBody):
    """A device took a part out again."""

    kind: ClassVar[str] = "contribution.withdrawn"
    key: PartKey
    revision: int
    reason: str
    replaces: int | None = None


class ContributionsLeftOut(EntryBody):
    """Which contributions are left out of the sum from here on, because a device gave too much."""

    kind: ClassVar[str] = "contributions.left_out"
    left_out: tuple[int, ...]
    """Ledger indices; none where everything counts again."""
    devices: dict[DeviceId, str]
    """Who met the bound, and a sentence on how."""


class NothingReported(EntryBody):
    """A device has no data for a stage or a round, or could not train in it."""

    kind: ClassVar[str] = "nothing.reported"
    stage: int
    round: RoundNumber | None = None
    reason: str = ""
    """Why it could not train; empty where it has no data."""
    observation: Observation | None = None
    """What it saw that was asked only to look, or that looked and had nothing to train on."""


class TransitionReported(EntryBody):
    """A device saw something new: class folders, or images that its model is unsure about."""

    kind: ClassVar[str] = "transition.reported"
    stage: int
    number: int
    why: Literal["entropy", "class name"]
    classes: dict[ClassName, int]
    """Class folders that the registry lacked, with their number of images."""
    uncertainty: Uncertainty | None = None

    @property
    def content(self) -> Digest:
        """Digest of what was reported, by which a repeat is known."""
        return Digest.of(canonical_json(self.model_dump(mode="json")))


class TemperatureFitted(EntryBody):
    """The inverse temperature that models get from here on."""

    kind: ClassVar[str] = "temperature.fitted"
    version: int
    """The model whose scores it was fitted on."""
    logit_scale: float = Field(gt=0)
    images: int
    devices: int
    nats_per_image: float
    """Mean negative log-likelihood at that scale."""


class ModelSolved(EntryBody):
    """A head was solved from the sum of the listed contributions, or a network was taken.

    Of a network `inputs` names the entry of its weights, and `head` are these weights.
    """

    kind: ClassVar[str] = "model.solved"
    version: int = Field(ge=1)
    lineage: Digest
    inputs: tuple[int, ...]
    """Ledger indices of the contributions in the sum."""
    class_names: tuple[ClassName, ...]
    aggregate: Digest
    head: Digest
    """The head's weights, as a blob."""
    method: str
    fingerprint: dict[str, str]
    """Platform that solved it: the head's digest is promised for the same fingerprint only."""
    seconds: float
    remarks: tuple[str, ...] = ()
    """What the method wants an operator to know of the head."""
    descends: tuple[DeviceId, ...] = ()
    """Devices of whose answers to rounds it descends that were retracted before."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The head's weights."""
        return (self.head,)


class ModelExported(EntryBody):
    """A solved head became a pair of ONNX files with a manifest."""

    kind: ClassVar[str] = "model.exported"
    version: int
    manifest: Offer
    files: tuple[Offer, ...]
    parity: Parity

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The manifest and every file that it pins."""
        return (self.manifest.digest, *(offer.digest for offer in self.files))


class ModelFailed(EntryBody):
    """A model could not be solved or exported; the text says why."""

    kind: ClassVar[str] = "model.failed"
    inputs: tuple[int, ...]
    class_names: tuple[ClassName, ...]
    reason: str


class ModelDesired(EntryBody):
    """A model is to run on all devices, or on the listed ones."""

    kind: ClassVar[str] = "model.desired"
    version: int
    devices: tuple[DeviceId, ...] | None = None
    reason: str
    returns: bool = False
    """It goes back to what all devices were to run before."""
    spares: bool = False
    """Devices that were told to run a version of their own go on with it."""

    @property
    def goes_back(self) -> bool:
        """Whether it goes back; entries of before said so in their reason alone."""
        return self.returns or (self.devices is None and self.reason == TAKEN_BACK)


class ModelsHeld(EntryBody):
    """Whether newly solved models wait for the operator instead of becoming desired."""

    kind: ClassVar[str] = "model.held"
    held: bool


class DeviceModelStatus(EntryBody):
    """What became of a desired model on a device."""

    kind: ClassVar[str] = "device.model_status"
    version: int
    manifest: Digest
    state: Literal["active", "failed", "rolled_back"]
    reason: str = ""


class DeviceEvaluated(EntryBody):
    """Accuracy measured on a device with the model that runs there."""

    kind: ClassVar[str] = "device.evaluated"
    version: int
    results: dict[ClassName, ClassResult]
    provider: str
    seconds: float
    bytes_up: int
    bytes_down: int
    losses: tuple[int, ...] = ()
    """Summed losses of the same images at the scales of `learning.numerics.calibration`."""
    answers: Literal["sample", "pixels"] = "sample"
    """What the model gives a class. Of pixels, results are the sizes of intersection and union of
    what is of a class and what the model took for it, the background among the classes."""


class CommandDone(EntryBody):
    """A command of the operator was carried out: it stands with the entries that it led to."""

    kind: ClassVar[str] = "command.done"
    ticket: str
    """Names the command in the operator's inbox."""
    text: str
    """The answer."""


class DeviceProblem(EntryBody):
    """A device reported something that its owner should mend."""

    kind: ClassVar[str] = "device.problem"
    about: str
    text: str


ENTRY_KINDS: dict[str, type[EntryBody]] = {
    model.kind: model
    for model in (
        DeviceAdmitted,
        DeviceInvited,
        DeviceEnrolled,
        DeviceKeyRotated,
        DeviceKeyRevoked,
        DeviceBorn,
        DeviceDoubled,
        DeviceSettled,
        BackboneImported,
        NetworkImported,
        ClassNamed,
        ClassRenamed,
        ClassMerged,
        StageOpened,
        StageClosed,
        ContributionAccepted,
        ContributionWithdrawn,
        ContributionRetracted,
        ContributionsLeftOut,
        DescentMarked,
        NothingReported,
        RoundOpened,
        RoundClosed,
        WeightsAveraged,
        WeightsPruned,
        RoundFailed,
        ClockCorrected,
        DevicesSilent,
        DevicesHeard,
        RoundsStopped,
        RoundsResumed,
        OldModelChosen,
        OldModelMissed,
        TransitionReported,
        TemperatureFitted,
        ModelSolved,
        ModelExported,
        ModelFailed,
        ModelDesired,
        ModelsHeld,
        RootPublished,
        ReleaseSigned,
        DeviceModelStatus,
        DeviceEvaluated,
        DeviceProblem,
        CommandDone,
    )
}


def read_entry(kind: str, body: dict[str, Any]) -> EntryBody:
    """Return the body of a stored entry; raise `KeyError` for a kind this program does not know."""
    return ENTRY_KINDS[kind].model_validate(body)
