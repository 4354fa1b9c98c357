"""Bytes that light devices would send and receive, from the sizes of real envelopes.

An envelope of each kind is made once per round, or stage; what differs between devices, the length
of their names, is added. Files count with their size and models are fetched once. Requests for
blocks, births, deaths and what is sent again are not counted.
"""

from __future__ import annotations

from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.envelope import Sender, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.meter import Counts

_BOOT = BootId("0" * 16)
_SEQUENCE = 100
"""Of a device in the middle of its run: three digits."""
_INDEX = 10_000
_NOTHING: frozenset[Offer] = frozenset()


class Traffic:
    """Counts what each device sends and receives."""

    def __init__(self, fleet: FleetId) -> None:
        self._fleet = fleet
        self._up: dict[DeviceId, int] = {}
        self._down: dict[DeviceId, int] = {}
        self._sent: dict[DeviceId, int] = {}
        self._held: dict[DeviceId, frozenset[Offer]] = {}
        """Files of the last order that a device got: it fetched them, and has no others."""
        self._models: dict[DeviceId, frozenset[Offer]] = {}
        """Files of the model that each device fetched last."""
        self._asked = 0
        self._files: frozenset[Offer] = frozenset()
        self._lasting: frozenset[Offer] = frozenset()
        """Those that devices keep when no round is open."""
        self._compared: tuple[frozenset[Offer] | None, int] = (None, 0)
        self._answer: tuple[int, int] | None = None
        self._nothing: tuple[int, int] | None = None

    def begin(self, assignment: Assignment, device: DeviceId, sent_ms: int) -> None:
        """Begin a round, or a stage of statistics; `device` is one of those who are asked."""
        self._asked = self._size(device, assignment, sent_ms)
        self._files = frozenset(assignment.offers)
        self._lasting = frozenset(assignment.model_copy(update={"round": None}).offers)
        self._compared = (None, 0)
        self._answer = self._nothing = None

    def asked(self, device: DeviceId) -> None:
        """Count an order and the files that it names, but for those of the order before."""
        held = self._held.get(device, _NOTHING)
        self._held[device] = self._files
        self._down[device] = self._down.get(device, 0) + self._asked + self._new_bytes(held)

    def answered(self, device: DeviceId, contribution: Contribution, sent_ms: int) -> None:
        """Count an answer and its receipt."""
        if self._answer is None:
            receipt = Receipt(
                about="contribution",
                key=contribution.key,
                revision=0,
                payload=contribution.payload,
                answer=Accepted(ledger_index=_INDEX),
            )
            self._answer = self._pair(device, contribution, receipt, sent_ms)
        self._count(device, *self._answer, contribution.payload_bytes)

    def gave(self, device: DeviceId, gradients: PrototypeGradients) -> None:
        """Count gradients for the proxy."""
        self._up[device] = self._up.get(device, 0) + gradients.payload_bytes

    def declined(self, device: DeviceId, nothing: Nothing, sent_ms: int) -> None:
        """Count a word that there is no answer, and its receipt."""
        if self._nothing is None:
            key = PartKey(stage=nothing.stage, part=nothing.round or 0)
            receipt = Receipt(about="nothing", key=key, answer=Accepted(ledger_index=_INDEX))
            self._nothing = self._pair(device, nothing, receipt, sent_ms)
        self._count(device, *self._nothing, 0)

    def fetched(self, device: DeviceId, files: frozenset[Offer]) -> None:
        """Count files that a device fetches when a stage is over; those of its rounds go."""
        held = self._held.get(device, _NOTHING) | self._models.get(device, _NOTHING)
        self._held[device] = self._held.get(device, _NOTHING) & self._lasting
        self._models[device] = files
        self._down[device] = self._down.get(device, 0) + sum(offer.size for offer in files - held)

    def of(self, device: DeviceId) -> Counts:
        """Return what a device has sent and received."""
        return Counts(
            bytes_up=self._up.get(device, 0),
            bytes_down=self._down.get(device, 0),
            messages_up=self._sent.get(device, 0),
        )

    def _count(self, device: DeviceId, up: int, down: int, payload: int) -> None:
        self._up[device] = self._up.get(device, 0) + up + len(device) + payload
        self._down[device] = self._down.get(device, 0) + down
        self._sent[device] = self._sent.get(device, 0) + 1

    def _new_bytes(self, held: frozenset[Offer]) -> int:
        """Return the bytes of the order's files beside those that a device has, mostly the same."""
        if held is not self._compared[0]:
            self._compared = held, sum(offer.size for offer in self._files - held)
        return self._compared[1]

    def _pair(
        self, device: DeviceId, message: Message, receipt: Receipt, sent_ms: int
    ) -> tuple[int, int]:
        """Return the sizes of a message without the name of its sender, and of its receipt."""
        up = self._size(device, message, sent_ms) - len(device)
        return up, self._size(device, receipt, sent_ms)

    def _size(self, device: DeviceId, message: Message, sent_ms: int) -> int:
        sender = Sender(self._fleet, device, _BOOT, _SEQUENCE)
        return len(encode(sender.seal(message, sent_ms=sent_ms)))
