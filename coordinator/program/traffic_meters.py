"""Meters of the traffic that passes through the shell."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import SendToDevice
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.live.meters import (
    COMMIT_SECONDS,
    CONTRIBUTIONS,
    MESSAGES,
    MESSAGES_REFUSED,
    RECEIPT_SECONDS,
    ROUND_SECONDS,
    SOLVE_SECONDS,
    TRAFFIC_BYTES,
    Meters,
)
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.enrolment import Enrolment, KeyRotation
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.meter import Counts

_KINDS = frozenset(entry.kind for entry in CATALOGUE)
_OTHER = "other"
"""The kind of what was not read, or has no name of ours: a sender must not make names here."""
_MOST_TAKEN = 10_000
"""Contributions whose receipts are waited for; of a refusal beyond a device's number comes none."""
_Taken = tuple[DeviceId, PartKey, int]


class TrafficMeters:
    """Counts into meters; nothing here decides anything."""

    def __init__(self, meters: Meters) -> None:
        self.meters = meters
        self._taken: dict[_Taken, float] = {}
        self._round: Round | None = None
        """The newest round, while it is open."""

    def came(self, happening: inputs.Input | None, size: int, *, within_quota: bool) -> None:
        """Count a message of a device by what it meant."""
        kind = _kind_of(happening)
        self.meters.add(MESSAGES, "in", kind)
        self.meters.add(TRAFFIC_BYTES, "in", kind, count=size)
        if not within_quota:
            self.meters.add(MESSAGES_REFUSED, "quota")
        elif isinstance(happening, inputs.MessageRefused):
            self.meters.add(MESSAGES_REFUSED, "unbelieved")
        elif isinstance(happening, inputs.UnreadableMessage):
            self.meters.add(MESSAGES_REFUSED, "unreadable")

    def went(self, kind: str, size: int) -> None:
        """Count a message to a device, or to all."""
        self.meters.add(MESSAGES, "out", kind)
        self.meters.add(TRAFFIC_BYTES, "out", kind, count=size)

    def carried(self, blocks: Counts, by_http: int = 0) -> None:
        """Count what blocks by the broker, and HTTP, have carried since the start, a kind each."""
        self.meters.reach(MESSAGES, "in", "blocks", count=blocks.messages_down)
        self.meters.reach(MESSAGES, "out", "blocks", count=blocks.messages_up)
        self.meters.reach(TRAFFIC_BYTES, "in", "blocks", count=blocks.bytes_down)
        self.meters.reach(TRAFFIC_BYTES, "out", "blocks", count=blocks.bytes_up)
        self.meters.reach(TRAFFIC_BYTES, "out", "http", count=by_http)

    def committed(self, seconds: float) -> None:
        """Note how long it took to decide about a group, and to write its entries."""
        self.meters.observe(COMMIT_SECONDS, seconds)

    def worked(self, happening: inputs.Input) -> None:
        """Note how long a worker took."""
        if isinstance(happening, ModelSolved):
            self.meters.observe(SOLVE_SECONDS, happening.seconds)

    def took(self, taken: TakePayload, since: float) -> None:
        """Note when a contribution came, for when its receipt is sent."""
        body = taken.contribution
        if len(self._taken) >= _MOST_TAKEN:
            del self._taken[next(iter(self._taken))]
        self._taken[taken.device, body.key, body.revision] = since

    def answered(self, request: SendToDevice, *, size: int, since: float, now: float) -> None:
        """Count a receipt; `size` is the ledger's before the group, which came at `since`."""
        receipt = request.body
        if not isinstance(receipt, Receipt) or receipt.about != "contribution":
            return
        answer = receipt.answer
        repeated = isinstance(answer, Accepted) and answer.ledger_index < size
        self.meters.add(CONTRIBUTIONS, "repeated" if repeated else answer.answer)
        taken = self._taken.pop((request.device, receipt.key, receipt.revision), since)
        self.meters.observe(RECEIPT_SECONDS, max(0.0, now - taken))

    def rounds(self, newest: Round | None) -> None:
        """Note how long a round took, once it is closed; one that ended before is nobody's."""
        begun = self._round
        if begun is not None and begun.ended_ns is not None:
            self.meters.observe(ROUND_SECONDS, max(0.0, (begun.ended_ns - begun.opened_ns) / 1e9))
        self._round = newest if newest is not None and newest.ended_ns is None else None


def _kind_of(happening: inputs.Input | None) -> str:
    match happening:
        case inputs.DeviceMessage() | inputs.FormerRunSpoke() | inputs.MessageDeferred():
            kind = happening.envelope.header.kind
            return kind if kind in _KINDS else _OTHER
        case inputs.EnrolmentProven():
            return Enrolment.kind
        case inputs.RotationProven():
            return KeyRotation.kind
        case _:
            return _OTHER
