"""Commands of the operator: what the command line asks of the coordinator's core."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coordinator.core.entries import BackboneImported, NetworkImported
from coordinator.core.key_entries import MAX_REASON as MAX_KEY_REASON
from coordinator.core.retraction_entries import MAX_REASON
from schemas.contributions import PartKey
from schemas.message import Strict
from schemas.releases import SignedRelease
from schemas.roots import SignedRoot
from schemas.values import BootId, ClassName, DeviceId, Digest


class AdmitDevice(Strict):
    """Let a device take part."""

    verb: Literal["admit"] = "admit"
    device: DeviceId


class InviteDevice(Strict):
    """Let a device enrol a key, by a token whose secret lies in the coordinator's home already."""

    verb: Literal["invite"] = "invite"
    device: DeviceId
    invitation: Digest
    """Of the token's secret."""
    expires_ns: int = Field(ge=0, lt=2**63)


class RevokeKey(Strict):
    """Take a device's key back, and its token; nothing of the device is taken in any more."""

    verb: Literal["revoke-key"] = "revoke-key"
    device: DeviceId
    reason: str = Field(min_length=1, max_length=MAX_KEY_REASON)


class SettleTwins(Strict):
    """Say which of two installations under one name goes on."""

    verb: Literal["settle-twins"] = "settle-twins"
    device: DeviceId
    installation: BootId
    """Any name that it has: of a run, or its own where the other has another."""


class ImportBackbone(Strict):
    """Begin a new lineage; the files are in the blob store already."""

    verb: Literal["import-backbone"] = "import-backbone"
    backbone: BackboneImported


class ImportNetwork(Strict):
    """Begin a lineage whose network the fleet trains whole; its files are in the store already."""

    verb: Literal["import-network"] = "import-network"
    network: NetworkImported


class OpenStage(Strict):
    """Ask the fleet to learn these classes; closes an open stage first."""

    verb: Literal["open-stage"] = "open-stage"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=1000)
    asks: bool = False
    """Whether somebody can be asked about strange names, and about devices that are missing."""


class CloseStage(Strict):
    """Close the open stage without waiting any longer."""

    verb: Literal["close-stage"] = "close-stage"


class ResumeRounds(Strict):
    """Try the rounds of the open stage again, which had stopped."""

    verb: Literal["resume-rounds"] = "resume-rounds"


class RenameClass(Strict):
    """Give a class another name."""

    verb: Literal["rename-class"] = "rename-class"
    old: ClassName
    new: ClassName


class MergeClasses(Strict):
    """Make one class an alias of another."""

    verb: Literal["merge-classes"] = "merge-classes"
    source: ClassName
    target: ClassName


class PushModel(Strict):
    """Make a version desired: on all devices, or on some."""

    verb: Literal["push-model"] = "push-model"
    version: int = Field(ge=1)
    devices: tuple[DeviceId, ...] | None = None


class HoldModels(Strict):
    """Keep newly solved models from becoming desired, or end that."""

    verb: Literal["hold-models"] = "hold-models"
    held: bool = True


class CorrectClock(Strict):
    """Let entries have the times of this machine's calendar again, which is right."""

    verb: Literal["correct-clock"] = "correct-clock"


class GoBack(Strict):
    """Go back to a version that all devices were to run before, and hold."""

    verb: Literal["go-back"] = "go-back"
    to: int | None = Field(default=None, ge=1)
    """That version; None for the one before."""
    leaving: int | None = Field(default=None, ge=1)
    """What the operator takes for what all devices are to run, if somebody looked."""
    canaries: bool = False
    """Devices that were told to run a version of their own go back too."""


class PublishRoot(Strict):
    """Let devices that have a root follow to the next one."""

    verb: Literal["publish-root"] = "publish-root"
    root: SignedRoot
    anew: bool = False
    """The keys of the root before are lost: begin again with this one."""


class SignModel(Strict):
    """Let out what is desired, by a release that was signed elsewhere."""

    verb: Literal["sign-model"] = "sign-model"
    action: int = Field(ge=0)
    """Ledger index of the entry that made the version desired."""
    signed: SignedRelease


class RetractContributions(Strict):
    """Take what a device gave out of the sum; of rounds, mark what came of it."""

    verb: Literal["retract"] = "retract"
    device: DeviceId
    part: PartKey | None = None
    """One part alone, or one round's answer; None for everything."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)


Command = Annotated[
    AdmitDevice
    | InviteDevice
    | RevokeKey
    | SettleTwins
    | ImportBackbone
    | ImportNetwork
    | OpenStage
    | CloseStage
    | ResumeRounds
    | RenameClass
    | MergeClasses
    | PushModel
    | HoldModels
    | GoBack
    | PublishRoot
    | SignModel
    | RetractContributions
    | CorrectClock,
    Field(discriminator="verb"),
]
