"""What can happen to the coordinator: messages, results of its workers, commands, time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.work import WorkResult
from fleetledger.coordinator.topics.contributions.accepted_answers import StoredAnswer
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import Envelope
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import DeviceId, Digest


@dataclass(frozen=True)
class CoordinatorConnected:
    """The connection to the broker is up (again)."""


@dataclass(frozen=True)
class DeviceMessage:
    """A decoded envelope from a device's topic; the topic says which device may have sent it."""

    device: DeviceId
    envelope: Envelope


@dataclass(frozen=True)
class FormerRunSpoke:
    """A run that a device with a key has ended speaks: said before, or by another installation."""

    device: DeviceId
    envelope: Envelope


@dataclass(frozen=True)
class UnreadableMessage:
    """Bytes on a device's topic that are no envelope of ours."""

    device: DeviceId
    reason: str


@dataclass(frozen=True)
class MessageRefused:
    """A message that is not to be believed: its signature is missing or wrong, or may not count."""

    device: DeviceId
    reason: str


@dataclass(frozen=True)
class EnrolmentProven:
    """A device's key signed an enrolment, with the MAC of an invitation's secret.

    Without an `invitation` the key is the one that counts already.
    """

    device: DeviceId
    key: VerifyKey
    invitation: Digest | None


@dataclass(frozen=True)
class RotationProven:
    """A device's new key signed a rotation, and the former one signed for the new one."""

    device: DeviceId
    key: VerifyKey
    former: VerifyKey


@dataclass(frozen=True)
class MessageDeferred:
    """A device has sent more than its quota; for this message there is room in some seconds."""

    device: DeviceId
    envelope: Envelope
    after_seconds: float


@dataclass(frozen=True)
class HistoryDoubted:
    """A device has seen another ledger than this one, or a longer one; the text says how."""

    device: DeviceId
    text: str


@dataclass(frozen=True)
class PayloadOutcome:
    """End of the intake of a payload."""

    device: DeviceId
    contribution: Contribution
    ended: Literal["stored", "unusable", "missing"] = "stored"
    """Checked by the method and in the blob store, refused by the method's check for good, or not
    to be had in time, so that the device sends its offer again."""
    reason: str = ""
    """Cause of a payload that is not stored."""
    waits: bool = True
    """Whether the device waits for a receipt; a refusal is sent in any case."""


@dataclass(frozen=True)
class AnswersStored:
    """Answers to one round that came together, and of which no device waits for a receipt."""

    answers: Sequence[StoredAnswer]

    @property
    def singly(self) -> Iterator[PayloadOutcome]:
        """Each answer as an input of its own."""
        for answer in self.answers:
            yield PayloadOutcome(answer.device, answer.contribution, waits=False)


@dataclass(frozen=True)
class OperatorCommand:
    """A command of the operator; `ticket` names it in the answer."""

    ticket: str
    command: Command
    actor: str = OPERATOR
    """Who made it: entries of it say so."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Input = (
    CoordinatorConnected
    | DeviceMessage
    | FormerRunSpoke
    | UnreadableMessage
    | MessageRefused
    | MessageDeferred
    | EnrolmentProven
    | RotationProven
    | HistoryDoubted
    | PayloadOutcome
    | WorkResult
    | OperatorCommand
    | Tick
)
