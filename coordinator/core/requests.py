"""What the rules ask of the shell, to be done once the decision's entries are committed."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.entries import (
    BackboneImported,
    Lineage,
    ModelSolved,
    NetworkImported,
    RoundOpened,
    WeightsAveraged,
)
from schemas.contributions import Contribution
from schemas.message import Message
from schemas.topics import DownLeaf
from schemas.values import ClassName, DeviceId, Digest


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
class TakePayload:
    """Take the payload in, attached or by fetching the offer; then check and store it."""

    device: DeviceId
    contribution: Contribution
    attachment: bytes
    lineage: Lineage
    round: RoundOpened | None = None
    """The round that it answers."""


@dataclass(frozen=True)
class SolveInput:
    """One contribution of a solve."""

    index: int
    payload: Digest
    stage: int
    """Stage that it was made in."""


@dataclass(frozen=True)
class SolveHead:
    """Sum the inputs and solve the head: the recipe of a model."""

    version: int
    lineage: BackboneImported
    inputs: tuple[SolveInput, ...]
    class_names: tuple[ClassName, ...]
    """Rows of the head, in order."""
    resolution: dict[ClassName, ClassName]
    """Every accepted name with the class that it means."""


@dataclass(frozen=True)
class ExportHead:
    """Turn a solved head into a pair of ONNX files with a manifest."""

    solved: ModelSolved
    solved_index: int
    """Ledger index of the solve."""
    solved_ns: int
    lineage: Lineage
    logit_scale: float | None = None
    """The fitted inverse temperature; None for the method's own."""


@dataclass(frozen=True)
class AverageInput:
    """One answer of a round."""

    index: int
    payload: Digest
    samples: int


@dataclass(frozen=True)
class AverageRound:
    """Average the answers of a round, exactly."""

    lineage: NetworkImported
    opened: RoundOpened
    inputs: tuple[AverageInput, ...]


@dataclass(frozen=True)
class FreezeNetwork:
    """Turn the trunk of a trained network into the frozen model of the lineage that follows."""

    lineage: NetworkImported
    weights: WeightsAveraged


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


Request = (
    SendToDevice
    | TakeBack
    | AnnounceCoordinator
    | BeatCoordinator
    | TakePayload
    | SolveHead
    | ExportHead
    | AverageRound
    | FreezeNetwork
    | PruneBlobs
    | ForgetInvitation
    | TellOperator
    | AnswerOperator
)
