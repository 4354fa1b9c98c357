"""What the rules ask of the shell, to be done once the decision's entries are committed."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.coordinator.core.work import TakePayload, Work
from fleetledger.schemas.message import Message
from fleetledger.schemas.topics import DownLeaf
from fleetledger.schemas.values import DeviceId, Digest


@dataclass(frozen=True)
class SendToDevice:
    """Publish a message to one device."""

    device: DeviceId
    leaf: DownLeaf
    body: Message
    retain: bool = False
    refers_to: Digest | None = None


@dataclass(frozen=True)
class TakeBack:
    """Have the broker forget a retained message, so that nobody who comes later gets it."""

    device: DeviceId
    leaf: DownLeaf


@dataclass(frozen=True)
class AnnounceCoordinator:
    """Publish the coordinator's retained birth."""

    ledger_size: int


@dataclass(frozen=True)
class PruneBlobs:
    """Delete bytes that nothing needs any more; the entries that name them stay."""

    digests: tuple[Digest, ...]


@dataclass(frozen=True)
class ForgetInvitation:
    """Delete the secret of an invitation that is open no more."""

    invitation: Digest


@dataclass(frozen=True)
class BeatCoordinator:
    """Tell all devices that the coordinator is there, how large its ledger is, and the time."""

    ledger_size: int
    corrections: int


@dataclass(frozen=True)
class TellOperator:
    """Say in the log what the operator has to know, and nobody else can mend."""

    text: str


@dataclass(frozen=True)
class AnswerOperator:
    """Tell the operator what came of a command."""

    ticket: str
    done: bool
    text: str
    asks: bool = False
    """The text is a question: nothing was done yet."""
    entries: tuple[int, ...] = ()
    """Indices of the entries that the command made; none where a restart repeats the answer."""


Request = (
    SendToDevice
    | TakeBack
    | AnnounceCoordinator
    | BeatCoordinator
    | TakePayload
    | Work
    | PruneBlobs
    | ForgetInvitation
    | TellOperator
    | AnswerOperator
)
