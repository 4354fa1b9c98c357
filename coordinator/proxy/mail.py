"""Messages of the proxy: as a device with the coordinator, as a leader with devices."""

from __future__ import annotations

from fleetledger.coordinator.proxy.decision import Gradients, Input, Tell
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError, SchemaError
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.clock import Clock
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage


class ProxyMail:
    """Reads what arrives, and seals what goes out."""

    def __init__(self, fleet: FleetId, sender: Sender, clock: Clock) -> None:
        self._fleet = fleet
        self._sender = sender
        self._clock = clock
        self._ordinary = FleetTopics(fleet)
        self._branch = FleetTopics(fleet, "proxy")
        self._order = str(self._ordinary.down(PROXY, "assignment"))
        self._receipt = str(self._ordinary.down(PROXY, "rcpt"))
        self._spoken: dict[DeviceId, int] = {}
        """Version of the wire of what each device said last."""

    @property
    def filters(self) -> tuple[str, ...]:
        """What the control connection subscribes to."""
        return (self._order, self._receipt, *self._branch.from_every_device("msg"))

    def read(self, message: IncomingMessage) -> Input:
        """Return the input that a message means; raise `SchemaError` for what is not sent there."""
        envelope = decode(message.payload, wire=self._sender.wire)
        from_coordinator = message.topic in (self._order, self._receipt)
        speaker = COORDINATOR if from_coordinator else self._branch.parse(message.topic).device
        header = envelope.header
        if (header.fleet, header.sender) != (self._fleet, speaker):
            raise EnvelopeError(
                f"sender: {header.sender!r} of {header.fleet!r} speaks on {message.topic}"
            )
        if message.topic == self._order:
            return envelope.read(ScoringOrder)
        if message.topic == self._receipt:
            receipt = envelope.read(Receipt)
            if receipt.about != "scored":
                raise SchemaError(f"about: a receipt for {receipt.about}, of which none went out")
            return receipt
        self._spoken[speaker] = header.version
        return Gradients(speaker, envelope.read(PrototypeGradients), envelope.attachment)

    def seal(self, told: Tell) -> OutgoingMessage:
        """Return a message, to a device in the version in which it spoke last."""
        device, version = told.device, None
        topic = self._ordinary.up(PROXY, "msg")
        if device is not None:
            topic, version = self._branch.down(device, "rcpt"), self._spoken.get(device)
        sealed = self._sender.seal(told.body, sent_ms=self._clock.time_ms(), version=version)
        return OutgoingMessage(str(topic), encode(sealed))
