"""The one interface to whatever carries messages; MQTT and the in-memory broker implement it.

The rules, which both keep and `tests/transport/test_behaviour.py` holds:

- `publish` either takes the message over or raises; nothing is kept for later. Without a
  connection it raises `NotConnectedError`. What was taken over may still be lost with the
  connection or in the broker: whoever needs delivery keeps the message until the other program's
  own answer arrives, and sends it again after every `Connected`.
- A payload larger than `max_payload` raises `PayloadTooLargeError` before anything is sent, and
  later messages are not disturbed.
- A received message of QoS 1 stays the broker's until `acknowledge`: whoever acknowledges after
  its commit meets every message at least once. What was not acknowledged comes again after a
  reconnect, so repeats are normal.
- Subscriptions are remembered and made again whenever the broker has no session for us.
- The will is published by the broker when the connection is lost, and not after `stop`.
- Lost connections come back by themselves. Every change is an event, in order with the messages.
- Nothing fails silently: what cannot be raised to a caller arrives as a `ConnectionProblem`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fleetledger.transport.errors import TransportError
from fleetledger.transport.meter import Meter


@dataclass(frozen=True)
class OutgoingMessage:
    """A message to publish. QoS 0 may vanish anywhere, QoS 1 reaches the broker at least once."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    compressible: bool = False
    """Whether a network carries the attachment of this envelope as a zstd frame, where that is
    shorter. In memory nothing is compressed."""


@dataclass(frozen=True)
class IncomingMessage:
    """A message that arrived; `token` is what `acknowledge` needs and means nothing to others.

    `retained` says that the broker had kept it, as far as the broker can be believed (amqtt also
    marks what it queued for an absent client).
    """

    topic: str
    payload: bytes
    qos: int
    retained: bool
    token: object = None


@dataclass(frozen=True)
class Connected:
    """The broker accepted us; `session_present` says that it still knew our subscriptions."""

    session_present: bool


@dataclass(frozen=True)
class Subscribed:
    """The broker serves these filters from here on; said where it was asked for."""

    filters: tuple[str, ...]


@dataclass(frozen=True)
class Disconnected:
    """The connection is gone; it comes back by itself unless `stop` was called."""

    reason: str


@dataclass(frozen=True)
class ConnectionProblem:
    """Something went wrong in the background: a refused connection, publish or subscription."""

    error: TransportError


Event: TypeAlias = "IncomingMessage | Connected | Subscribed | Disconnected | ConnectionProblem"


class Connection(Protocol):
    """One named session at a broker. Methods may be called from any thread, events by one."""

    @property
    def max_payload(self) -> int:
        """Largest payload in bytes that `publish` takes; may shrink when the broker announces."""

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted us and the connection is not known to be lost."""

    @property
    def meter(self) -> Meter:
        """Counts of what crossed."""

    def start(self) -> None:
        """Begin connecting, and keep connecting, in the background."""

    def wait_connected(self, seconds: float) -> None:
        """Wait for the connection; raise the last refusal, or `BrokerUnreachableError`."""

    def stop(self) -> None:
        """Send what is queued, leave the broker without a will, and end; may be called twice."""

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Add filters, now and after every loss of the session."""

    def unsubscribe(self, *filters: str) -> None:
        """Leave filters, now and after every loss of the session."""

    def publish(self, message: OutgoingMessage) -> None:
        """Hand `message` over to be sent.

        Raises `PayloadTooLargeError`, `NotConnectedError` or `QueueFullError`; nothing was sent
        then.
        """

    def next_event(self, seconds: float) -> Event | None:
        """Return the next event, or None after `seconds` or when `wake` was called.

        Raises `ThreadEndedError` where nothing keeps the connection open any more.
        """

    def wake(self) -> None:
        """Make a waiting `next_event` return None now, from any thread."""

    def acknowledge(self, message: IncomingMessage) -> None:
        """Tell the broker that `message` is safe here; of no effect for QoS 0 and old sessions."""
