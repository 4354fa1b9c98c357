"""Messages of the control connection: what arrives becomes an input, what is asked for goes out.

A device with a key signs all of it. One that knows the coordinator's key believes nothing of the
coordinator that this key has not signed for the topic on which it came.

With the proxy, where the fleet has one, the device speaks on a branch of its own, which the
coordinator need not be able to read: gradients go out there, and receipts for them come in. The
proxy has no key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.device_agent.core import inputs
from fleetledger.runtime.errors import SchemaError, cut
from fleetledger.runtime.shown_commands import with_homes
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortJoin
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.enrolment import Enrolled
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Envelope, Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.keys import SigningKey, VerifyKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.presence import (
    CoordinatorBirth,
    CoordinatorDeath,
    CoordinatorHeartbeat,
    Death,
    Welcome,
)
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.topics import FleetTopics, Topic, UpLeaf, qos_of
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.errors import PayloadTooLargeError
from fleetledger.transport.interface import Connection, IncomingMessage, OutgoingMessage

_LONGEST_TEXT = 500


class ComplaintError(SchemaError):
    """The coordinator could not read something of ours; its words are for the log."""


@dataclass(frozen=True)
class Signing:
    """Which key signs a message that goes out, and which must have signed what comes in."""

    signer_for: Callable[[Message], SigningKey | None] = lambda _: None
    coordinator_key: VerifyKey | None = None


UNSIGNED = Signing()
"""Of a device without a key, and without the coordinator's."""


class AgentMail:
    """Reads and writes envelopes of one device on one connection."""

    def __init__(
        self,
        connection: Connection,
        topics: FleetTopics,
        device: DeviceId,
        sender: Sender,
        clock: Clock = SYSTEM_CLOCK,
        *,
        signing: Signing = UNSIGNED,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._proxy = FleetTopics(topics.fleet, "proxy")
        self._device = device
        self._sender = sender
        self._clock = clock
        self._signing = signing
        self._coordinator: Digest | None = None
        """The coordinator's birth that was believed last: who recorded what is said now cannot say
        it to the next one."""

    @property
    def filters(self) -> tuple[str, ...]:
        """Return what the control connection subscribes to."""
        leaves = self._topics.to_device(self._device, "assignment", "desired", "rcpt", "ctl")
        return (*leaves, str(self._topics.coordinator_state))

    @property
    def proxy_filters(self) -> tuple[str, ...]:
        """Return what it subscribes to as well, once it has messages to the proxy."""
        return self._proxy.to_device(self._device, "rcpt")

    def read(self, message: IncomingMessage) -> inputs.Input | None:
        """Return the input that a message means; none if it is for another run under our name.

        Raises `SchemaError` for anything that is not sent on that topic, by the coordinator or by
        the proxy, or is not signed by whom it must be, and `ComplaintError` with the text of the
        coordinator's own complaints.
        """
        envelope = decode(message.payload, wire=self._sender.wire)
        header = envelope.header
        from_proxy = message.topic in self.proxy_filters
        speaker = PROXY if from_proxy else COORDINATOR
        if (header.fleet, header.sender) != (self._topics.fleet, speaker):
            raise EnvelopeError(
                f"sender: {header.sender!r} of {header.fleet!r} speaks on {message.topic}, "
                f"where only the {speaker} may"
            )
        if not from_proxy and self._signing.coordinator_key is not None:
            envelope.check_signature(self._signing.coordinator_key, message.topic)
        leaf = message.topic.rpartition("/")[2]
        known = from_proxy or message.topic in self.filters
        reader = _READ.get((leaf, header.kind)) if known else None
        if reader is None:
            raise SchemaError(f"kind: {header.kind!r} arrived on {message.topic}; ignored")
        for_runs = (None, self._sender.boot)
        if header.kind == Problem.kind and envelope.read(Problem).run not in for_runs:
            return None
        event = reader(envelope)
        if isinstance(event, inputs.ReceiptArrived):
            _check_receipt(event.receipt, speaker)
        return event

    def refer_to(self, birth: Digest | None, version: int) -> None:
        """Let messages refer to this birth of the coordinator, in its version of the wire."""
        self._coordinator = birth or self._coordinator
        self._sender.speaks = version

    def send(self, leaf: UpLeaf, body: Message, *, retain: bool = False) -> None:
        """Publish a message.

        Raises `TransportError` as `Connection.publish` does.
        """
        body, topic = self._signed(as_sent(body)), self._topics.up(self._device, leaf)
        qos = qos_of(leaf)
        self._connection.publish(
            OutgoingMessage(topic, encode(self._seal(topic, body)), qos=qos, retain=retain)
        )

    def _signed(self, body: Message) -> Message:
        """Return a word for a cohort as the other members can check it; all else as it is."""
        if not isinstance(body, CohortJoin) or (key := self._signing.signer_for(body)) is None:
            return body
        signature = body.joining.signature(self._topics.fleet, self._device, key)
        return body.model_copy(update={"signature": signature})

    def subscribe_to_proxy(self) -> None:
        """Have the proxy's receipts sent here."""
        self._connection.subscribe(*self.proxy_filters)

    def send_payload(
        self,
        body: Contribution | PrototypeGradients,
        payload: bytes,
        serve: Callable[[BlockSource], object],
    ) -> None:
        """Publish a message with its payload attached, or offered if the broker is narrow.

        Gradients go to the proxy, contributions to the coordinator.
        """
        topics = self._proxy if isinstance(body, PrototypeGradients) else self._topics
        topic = topics.up(self._device, "msg")
        try:
            self._connection.publish(
                OutgoingMessage(topic, encode(self._seal(topic, body, payload)), compressible=True)
            )
        except PayloadTooLargeError:
            if not payload:
                raise
            source = BlockSource(payload)
            serve(source)
            offered = self._seal(topic, body.model_copy(update={"offer": source.offer}))
            self._connection.publish(OutgoingMessage(topic, encode(offered)))

    def _seal(self, topic: Topic, body: Message, attachment: bytes = b"") -> Envelope:
        self._sender.signer = self._signing.signer_for(body)
        return self._sender.seal(
            body,
            sent_ms=self._clock.time_ms(),
            attachment=attachment,
            refers_to=self._coordinator,
            topic=topic,
        )


def as_sent(body: Message) -> Message:
    """Return a message whose commands have the agent's home, which its reader does not know."""
    match body:
        case Problem(text=text):
            return body.model_copy(update={"text": cut(with_homes(text), _LONGEST_TEXT)})
        case ModelStatus(reason=text):
            return body.model_copy(update={"reason": cut(with_homes(text), _LONGEST_TEXT)})
    return body


def make_will(
    topics: FleetTopics, device: DeviceId, sender: Sender, clock: Clock = SYSTEM_CLOCK
) -> OutgoingMessage:
    """Return the will: this run's death, retained on the topic of its births."""
    topic = topics.up(device, "state")
    envelope = sender.seal(Death(), sent_ms=clock.time_ms(), topic=topic)
    return OutgoingMessage(topic, encode(envelope), qos=1, retain=True)


def _check_receipt(receipt: Receipt, speaker: DeviceId) -> None:
    """Refuse a receipt for messages that went to somebody else."""
    if (receipt.about == "gradients") != (speaker == PROXY):
        raise SchemaError(
            f"about: a receipt for {receipt.about} by the {speaker}, to whom none went; ignored"
        )


def _complaint(envelope: Envelope) -> inputs.Input:
    raise ComplaintError(envelope.read(Problem).text)


_READ: dict[tuple[str, str], Callable[[Envelope], inputs.Input]] = {
    ("state", CoordinatorBirth.kind): lambda envelope: inputs.CoordinatorBorn(
        envelope.header.boot, envelope.read(CoordinatorBirth), envelope.message_id
    ),
    ("state", CoordinatorHeartbeat.kind): lambda envelope: inputs.CoordinatorBeat(
        envelope.header.boot, envelope.read(CoordinatorHeartbeat)
    ),
    ("state", CoordinatorDeath.kind): lambda envelope: inputs.CoordinatorDied(envelope.header.boot),
    ("assignment", Assignment.kind): lambda envelope: inputs.Assigned(
        envelope.header.boot, envelope.read(Assignment)
    ),
    ("desired", DesiredModel.kind): lambda envelope: inputs.DesiredArrived(
        envelope.header.boot, envelope.read(DesiredModel)
    ),
    ("rcpt", Receipt.kind): lambda envelope: inputs.ReceiptArrived(envelope.read(Receipt)),
    ("ctl", Welcome.kind): lambda envelope: inputs.Welcomed(
        envelope.header.boot, envelope.read(Welcome)
    ),
    ("ctl", Enrolled.kind): lambda envelope: inputs.KeyEnrolled(envelope.read(Enrolled).key),
    ("ctl", Problem.kind): _complaint,
}
