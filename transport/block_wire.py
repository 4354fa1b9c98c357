"""How block messages look on the wire: one envelope each, on the `req` and `blk` topics."""

from __future__ import annotations

from schemas.envelope import COORDINATOR, PROXY, Sender, decode, encode
from schemas.errors import EnvelopeError
from schemas.message import Message
from schemas.offers import BlockData, BlockRefusal, BlockRequest
from schemas.topics import FleetTopics
from schemas.values import DeviceId
from transport.clock import SYSTEM_CLOCK, Clock
from transport.interface import IncomingMessage, OutgoingMessage

_LONGEST_HEADER = 4 * 1024
"""Bytes of a header line; of a request for 64 blocks they are some 1,300."""


class BlockWire:
    """Turns block messages into MQTT messages and back, for one side of the fleet's topics."""

    def __init__(
        self,
        topics: FleetTopics,
        sender: Sender,
        device: DeviceId | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._topics = topics
        self._sender = sender
        self._device = device
        self._clock = clock

    @property
    def filters(self) -> tuple[str, ...]:
        """What this side subscribes to."""
        if self._device is None:
            return self._topics.from_every_device("req", "blk")
        return self._topics.to_device(self._device, "req", "blk")

    def request(self, peer: DeviceId, request: BlockRequest) -> OutgoingMessage:
        """Ask `peer` for blocks."""
        topic = self._topics.down if self._device is None else self._topics.up
        return self._message(topic(peer, "req"), request, b"")

    def data(self, peer: DeviceId, label: BlockData, block: bytes) -> OutgoingMessage:
        """Send `peer` a block."""
        topic = self._topics.down if self._device is None else self._topics.up
        return self._message(topic(peer, "blk"), label, block)

    def refusal(self, peer: DeviceId, refusal: BlockRefusal) -> OutgoingMessage:
        """Tell `peer` that it gets none of what it asked for."""
        topic = self._topics.down if self._device is None else self._topics.up
        return self._message(topic(peer, "blk"), refusal, b"")

    def read(
        self, message: IncomingMessage
    ) -> tuple[DeviceId, BlockRequest | BlockData | BlockRefusal, bytes]:
        """Return who speaks, what it says and the bytes of a block.

        The peer is the device whose topic it is. Raises `SchemaError` for anything that does not
        belong there: a foreign fleet or sender, another kind, a broken envelope.
        """
        where = self._topics.parse(message.topic)
        if where.direction != ("up" if self._device is None else "down"):
            raise EnvelopeError("topic: one that this side only publishes on")
        envelope = decode(message.payload, _LONGEST_HEADER)
        served_by = PROXY if self._topics.branch == "proxy" else COORDINATOR
        speaker = where.device if where.direction == "up" else served_by
        header = envelope.header
        if (header.fleet, header.sender) != (self._topics.fleet, speaker):
            raise EnvelopeError(
                f"sender: {header.sender!r} of {header.fleet!r} speaks on the topic of {speaker!r}"
            )
        if where.leaf == "req":
            return where.device, envelope.read(BlockRequest), b""
        if header.kind == BlockRefusal.kind:
            return where.device, envelope.read(BlockRefusal), b""
        return where.device, envelope.read(BlockData), envelope.attachment

    def _message(self, topic: str, body: Message, attachment: bytes) -> OutgoingMessage:
        envelope = self._sender.seal(body, sent_ms=self._clock.time_ms(), attachment=attachment)
        return OutgoingMessage(topic, encode(envelope), qos=0)
