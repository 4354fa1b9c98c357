"""How block messages look on the wire: one envelope each, on the `req` and `blk` topics."""

from __future__ import annotations

from typing import NamedTuple

from fleetledger.schemas.block_frames import read_block, write_block
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest
from fleetledger.schemas.topics import DeviceTopic, FleetTopics
from fleetledger.schemas.values import DeviceId, Digest, FleetId
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage

_LONGEST_HEADER = 4 * 1024
"""Bytes of a header line; of a request for 64 blocks they are some 1,300."""


class Heard(NamedTuple):
    """What arrived: whose topic it was on, what was said, and the bytes of blocks."""

    peer: DeviceId
    body: BlockRequest | BlockData | BlockRefusal
    block: bytes | memoryview = b""
    shared_ms: int | None = None
    """When it was sent to every device, by the sender's clock; None if to this side alone."""


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
        return self._message(topic(peer, "req"), request)

    def data(
        self, peer: DeviceId, label: BlockData, block: bytes, digest: Digest
    ) -> OutgoingMessage:
        """Send `peer` a block, whose SHA-256 is `digest`.

        What devices give is compressed on its way, as integers are that come to a quarter less. A
        model is of floats, which come to little less, and goes to many: it is not.
        """
        topic = self._topics.down if self._device is None else self._topics.up
        payload = write_block(self._sender, label, block, digest, sent_ms=self._clock.time_ms())
        compressible = self._device is not None and label.section == "data"
        return OutgoingMessage(topic(peer, "blk"), payload, qos=0, compressible=compressible)

    def shared(self, label: BlockData, block: bytes, digest: Digest) -> OutgoingMessage:
        """Send blocks, whose SHA-256 is `digest`, to every device that listens for this data."""
        payload = write_block(self._sender, label, block, digest, sent_ms=self._clock.time_ms())
        return OutgoingMessage(self._topics.shared_blocks(label.digest), payload, qos=0)

    def shared_filter(self, digest: Digest) -> str:
        """Return the filter for blocks of this data that go to every device."""
        return self._topics.shared_blocks(digest)

    def refusal(self, peer: DeviceId, refusal: BlockRefusal) -> OutgoingMessage:
        """Tell `peer` that it gets none of what it asked for."""
        topic = self._topics.down if self._device is None else self._topics.up
        return self._message(topic(peer, "blk"), refusal)

    def read(self, message: IncomingMessage) -> Heard:
        """Return what a message says.

        The peer is the device whose topic it is. Raises `SchemaError` for anything that does not
        belong there: a foreign fleet or sender, another kind, a broken envelope.
        """
        shared = None if self._device is None else self._topics.shared_digest(message.topic)
        if shared is not None:
            return self._read_shared(message.payload, shared)
        where = self._topics.parse(message.topic)
        if where.direction != ("up" if self._device is None else "down"):
            raise EnvelopeError("topic: one that this side only publishes on")
        frame = read_block(message.payload) if where.leaf == "blk" else None
        if frame is not None:
            self._check_speaker(self._speaker(where), frame.fleet, frame.sender)
            return Heard(where.device, frame.label, frame.block)
        envelope = decode(message.payload, _LONGEST_HEADER)
        header = envelope.header
        self._check_speaker(self._speaker(where), header.fleet, header.sender)
        if where.leaf == "req":
            return Heard(where.device, envelope.read(BlockRequest))
        if header.kind == BlockRefusal.kind:
            return Heard(where.device, envelope.read(BlockRefusal))
        return Heard(where.device, envelope.read(BlockData), envelope.attachment)

    def _read_shared(self, payload: bytes, digest: Digest) -> Heard:
        assert self._device is not None  # `read` asks
        frame = read_block(payload)
        if frame is None or (frame.label.digest, frame.label.section) != (digest, "data"):
            raise EnvelopeError(f"topic: of blocks of {digest.short}… alone")
        self._check_speaker(COORDINATOR, frame.fleet, frame.sender)
        return Heard(self._device, frame.label, frame.block, frame.sent_ms)

    def _speaker(self, where: DeviceTopic) -> str:
        served_by = PROXY if self._topics.branch == "proxy" else COORDINATOR
        return where.device if where.direction == "up" else served_by

    def _check_speaker(self, speaker: str, fleet: FleetId, sender: DeviceId) -> None:
        if (fleet, sender) != (self._topics.fleet, speaker):
            raise EnvelopeError(
                f"sender: {sender!r} of {fleet!r} speaks on the topic of {speaker!r}"
            )

    def _message(self, topic: str, body: Message) -> OutgoingMessage:
        envelope = self._sender.seal(body, sent_ms=self._clock.time_ms())
        return OutgoingMessage(topic, encode(envelope), qos=0)
