"""One MQTT connection on paho, from CONNECT to its end; the only module that knows paho.

A link never reconnects. Its owner makes a fresh one, and so nothing of paho's state outlives a
connection: no resending past the in-flight window, no message that loops for ever because the
broker closes on it, no network thread that has died or hangs unseen.

Every callback is guarded: an exception in it would otherwise end paho's thread in silence.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fleetledger.transport.errors import (
    BrokerUnreachableError,
    CallbackError,
    ConnectionRefusedByBrokerError,
    NotAuthorisedError,
    NotConnectedError,
    QueueFullError,
    TransportError,
)
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.pending_bytes import PendingBytes
from fleetledger.transport.tls_failures import explain_handshake, hint_for_closing

log = logging.getLogger("transport.mqtt")

_UNSUPPORTED_VERSION = 132
_NOT_AUTHORISED = (134, 135)
_RECEIVE_MAXIMUM = 64
_FLUSH_SECONDS = 2.0
_GOODBYE_SECONDS = 1.0
_STOP_SECONDS = 2.0
_STILL_KEEPALIVES = 2
_READ_AHEAD_BYTES = 64 * 1024


class OtherVersionError(ConnectionRefusedByBrokerError):
    """The broker gave no usable answer in this MQTT version; another one may work."""


class NoAnswerError(OtherVersionError):
    """The broker took the connection and did not answer: an older one, or one in trouble."""


class LinkOwner(Protocol):
    """Who hears of what happens on a link; called in the network thread, so it must not wait."""

    def opened(self, link: PahoLink, *, session_present: bool) -> None:
        """Act on the broker's acceptance."""

    def received(self, message: IncomingMessage) -> None:
        """Take a message."""

    def granted(self, filters: list[str]) -> None:
        """Note that the broker serves filters."""

    def left(self, filters: list[str]) -> None:
        """Note that the broker serves filters no more."""

    def problem(self, error: TransportError) -> None:
        """Take what cannot be raised to a caller."""


@dataclass(frozen=True)
class DeliveryToken:
    """Ties a received message to its link: acknowledging it on a later link would be wrong."""

    link: PahoLink
    number: int


class Waker:
    """Both ends of the pair of sockets by which paho wakes its network thread.

    paho sends a byte for each packet, which costs a system call and hands the interpreter over. One
    is enough until the thread has read it: only after that it looks at the packets that wait.
    """

    def __init__(self, reading: socket.socket, writing: socket.socket) -> None:
        self._reading, self._writing = reading, writing
        self._sent = False

    def fileno(self) -> int:
        """Return what the network thread selects."""
        return self._reading.fileno()

    def send(self, data: bytes) -> int:
        """Wake the thread, unless it is on its way."""
        if self._sent:
            return len(data)
        self._sent = True
        return self._writing.send(data)

    def recv(self, size: int) -> bytes:
        """Take the bytes that woke the thread."""
        try:
            return self._reading.recv(size)
        finally:
            self._sent = False

    def close(self) -> None:
        """Close both ends; may be called twice."""
        self._reading.close()
        self._writing.close()


class WatchedClient(Client):
    """A paho client that notes when its network thread last moved, reads ahead, and wakes it once.

    paho asks the socket for single bytes in front of each packet. Here these come out of what was
    read before, and all of that is handled before the thread waits again.
    """

    moved: float = 0.0
    """On the monotonic clock, in seconds; at least once a second while all is well."""
    _ahead: bytes = b""
    _taken: int = 0

    def _thread_main(self) -> None:
        reading, writing = self._sockpairR, self._sockpairW
        if reading is not None and writing is not None:
            waker: Any = Waker(reading, writing)
            self._sockpairR = self._sockpairW = waker
        super()._thread_main()

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._taken == len(self._ahead):
            if bufsize >= _READ_AHEAD_BYTES:
                return super()._sock_recv(bufsize)
            self._ahead, self._taken = super()._sock_recv(_READ_AHEAD_BYTES), 0
        start = self._taken
        self._taken = min(start + bufsize, len(self._ahead))
        return self._ahead[start : self._taken]

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """Handle all that has been read from the socket."""
        code = super().loop_read(max_packets)
        while code == MQTTErrorCode.MQTT_ERR_SUCCESS and self._taken < len(self._ahead):
            code = super().loop_read(max_packets)
        return code

    def loop_misc(self) -> MQTTErrorCode:
        """Do what paho does at the end of every turn of its loop."""
        self.moved = time.monotonic()
        return super().loop_misc()


class PahoLink:
    """A connection in one MQTT version; `open` it once, `close` it once."""

    def __init__(
        self, settings: MqttSettings, version: int, will: OutgoingMessage | None, owner: LinkOwner
    ) -> None:
        self.version = version
        self.closed = threading.Event()
        self.reason = ""
        """Why the link closed."""
        self.broker_limit: int | None = None
        """Largest packet that the broker announced, in bytes."""
        self._settings = settings
        self._owner = owner
        self._pending = PendingBytes(settings.queue_bytes)
        self._answered = threading.Event()
        self._accepted = False
        self._refusal: ReasonCode | None = None
        self._wanted: dict[int, list[str]] = {}
        self._unwanted: dict[int, list[str]] = {}
        self._wanted_lock = threading.Lock()
        self._client = make_client(settings, version, will)
        self._client.on_connect = self._guarded(self._on_connect)
        self._client.on_disconnect = self._guarded(self._on_disconnect)
        self._client.on_message = self._guarded(self._on_message)
        self._client.on_publish = self._guarded(self._on_publish)
        self._client.on_subscribe = self._guarded(self._on_subscribe)
        self._client.on_unsubscribe = self._guarded(self._on_unsubscribe)

    def open(self) -> None:
        """Connect and wait for the broker's answer; on failure close the link and raise why."""
        address = f"{self._settings.host}:{self._settings.port}"
        try:
            self._client.connect(
                self._settings.host,
                self._settings.port,
                self._settings.keepalive_seconds,
                **_connect_options(self._settings, self.version),
            )
        except OSError as error:
            raise self._unreachable(address, error) from error
        self._client.moved = time.monotonic()
        self._client.loop_start()
        self._answered.wait(self._settings.answer_seconds)
        if not self._accepted:
            self.close(clean=False)
            raise self._refused(address)

    def subscribe(self, filters: Mapping[str, int]) -> None:
        """Ask for `filters` (filter to QoS); refusals arrive as problems."""
        if not filters:
            return
        with self._wanted_lock:
            _, number = self._client.subscribe(list(filters.items()))
            if number is not None:
                self._wanted[number] = list(filters)

    def unsubscribe(self, filters: list[str]) -> None:
        """Leave filters."""
        if not filters:
            return
        with self._wanted_lock:
            _, number = self._client.unsubscribe(filters)
            if number is not None:
                self._unwanted[number] = filters

    def publish(self, message: OutgoingMessage) -> None:
        """Hand `message` to paho; raise `NotConnectedError` or `QueueFullError`."""
        size = len(message.payload)
        self._pending.reserve(message.topic, size)
        info = self._client.publish(message.topic, message.payload, message.qos, message.retain)
        if info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._pending.placed(info.mid, message.topic, size)
            return
        self._pending.cancel(size)
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise QueueFullError(message.topic, size, self._settings.queue_bytes)
        raise NotConnectedError(message.topic)

    def acknowledge(self, number: int) -> None:
        """Acknowledge the received message of QoS 1 with this number."""
        self._client.ack(number, qos=1)

    def fault(self) -> str:
        """Say why the link cannot go on though nothing has closed it; empty where all is well.

        paho's network thread has been known to die unseen. While it moves it notices a broker that
        has fallen silent by itself, within two keepalives; so nobody may wait longer for it.
        """
        if getattr(self._client, "_thread", None) is None:
            return "the network thread has ended"
        still = time.monotonic() - self._client.moved
        if still > _STILL_KEEPALIVES * self._settings.keepalive_seconds:
            return f"the network thread has not moved for {still:.0f} s"
        return ""

    def give_up(self, reason: str) -> None:
        """Hold the link for closed, whatever its thread still does; `close` it then."""
        self._ended(reason)

    def close(self, *, clean: bool) -> None:
        """End the link; a clean end sends what is queued and tells the broker goodbye."""
        if clean and not self.closed.is_set():
            self._pending.wait_empty(_FLUSH_SECONDS)
            self._client.disconnect()
            self.closed.wait(_GOODBYE_SECONDS)
        self._cut_socket()
        self._stop_thread()
        self._ended("closed")

    def _stop_thread(self) -> None:
        """Wait for the network thread, and leave one that hangs: paho would wait for ever."""
        stopping = threading.Thread(target=self._client.loop_stop, daemon=True)
        stopping.start()
        stopping.join(_STOP_SECONDS)
        if stopping.is_alive():
            log.error("%s: a network thread hangs; left behind", self._settings.client_id)

    def _cut_socket(self) -> None:
        connection = self._client.socket()
        if isinstance(connection, socket.socket):
            with contextlib.suppress(OSError):  # already closed by the network thread
                # Not the method of an SSL socket: it would leave the rest to be read undeciphered.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _unreachable(self, address: str, error: OSError) -> TransportError:
        tls = self._settings.tls
        if tls is not None and isinstance(error, (ssl.SSLError, ConnectionResetError)):
            return explain_handshake(error, self._settings.host, self._settings.port, tls)
        return BrokerUnreachableError(
            f"{address}: no broker answers ({error}); check host and port, and that it runs"
        )

    def _refused(self, address: str) -> TransportError:
        code = self._refusal
        if code is None:
            closed = self.reason != "closed"
            how = "closed the connection" if closed else "gave no answer"
            hint = hint_for_closing(self._settings.tls) if closed else ""
            return NoAnswerError(f"{address}: the broker {how} (MQTT version {self.version}){hint}")
        if code.value in _NOT_AUTHORISED:
            return NotAuthorisedError(
                f"user {self._settings.user!r}: the broker at {address} refuses this user name and "
                f"password ({code}); {_check(self._settings)}"
            )
        kind = (
            OtherVersionError
            if code.value == _UNSUPPORTED_VERSION
            else ConnectionRefusedByBrokerError
        )
        return kind(f"{address}: the broker refuses client {self._settings.client_id!r} ({code})")

    def _ended(self, reason: str) -> None:
        if not self.closed.is_set():
            self.reason = reason
            self.closed.set()
        self._answered.set()

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(callback)
        def run(*arguments: Any) -> None:  # noqa: ANN401 - paho passes what it likes
            if self.closed.is_set():
                return  # a thread that was left behind came to itself
            try:
                callback(*arguments)
            except Exception as error:  # an escaping exception would end the network thread
                log.exception("failure in %s", callback.__name__)
                self._owner.problem(CallbackError(f"{callback.__name__}: {error!r}"))

        return run

    def _on_connect(
        self,
        client: Client,
        data: object,
        flags: ConnectFlags,
        code: ReasonCode,
        properties: Properties,
    ) -> None:
        if code.is_failure:
            self._refusal = code
        else:
            self.broker_limit = getattr(properties, "MaximumPacketSize", None)
            self._accepted = True
            self._owner.opened(self, session_present=bool(flags.session_present))
        self._answered.set()

    def _on_disconnect(
        self,
        client: Client,
        data: object,
        flags: DisconnectFlags,
        code: ReasonCode,
        properties: Properties,
    ) -> None:
        told = flags.is_disconnect_packet_from_server
        self._ended(f"the broker says: {code}" if told else "connection lost")

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        self._owner.received(
            IncomingMessage(
                message.topic,
                bytes(message.payload),
                message.qos,
                bool(message.retain),
                DeliveryToken(self, message.mid) if message.qos else None,
            )
        )

    def _on_publish(
        self, client: Client, data: object, number: int, code: ReasonCode, properties: Properties
    ) -> None:
        topic = self._pending.finished(number)
        if code.is_failure:
            error = NotAuthorisedError if code.value in _NOT_AUTHORISED else TransportError
            self._owner.problem(error(f"{topic}: the broker refused the message ({code})"))

    def _on_subscribe(
        self,
        client: Client,
        data: object,
        number: int,
        codes: list[ReasonCode],
        properties: Properties,
    ) -> None:
        with self._wanted_lock:
            filters = self._wanted.pop(number, [])
        refused = [f for f, code in zip(filters, codes, strict=False) if code.is_failure]
        if refused:
            self._owner.problem(NotAuthorisedError(f"{refused}: the broker refused to subscribe"))
        self._owner.granted([wanted for wanted in filters if wanted not in refused])

    def _on_unsubscribe(
        self,
        client: Client,
        data: object,
        number: int,
        codes: list[ReasonCode],
        properties: Properties,
    ) -> None:
        with self._wanted_lock:
            filters = self._unwanted.pop(number, [])
        self._owner.left(filters)


def _check(settings: MqttSettings) -> str:
    """Return the way out where a broker knows another password, or does not know the user."""
    if isinstance(settings.password, Path):
        return (
            f"put the password that the broker knows into {settings.password}, which is read at "
            "every connection"
        )
    return "check both"


def make_client(
    settings: MqttSettings, version: int, will: OutgoingMessage | None
) -> WatchedClient:
    """Make the one kind of paho client that is used here; it is not connected yet."""
    modern = version == MQTTProtocolVersion.MQTTv5
    client = WatchedClient(
        CallbackAPIVersion.VERSION2,
        client_id=settings.client_id,
        clean_session=None if modern else True,
        protocol=MQTTProtocolVersion(version),
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.connect_timeout = settings.answer_seconds
    client.max_inflight_messages_set(settings.inflight)
    if settings.tls is not None:
        client.tls_set_context(settings.tls.context())
    if settings.user is not None:
        client.username_pw_set(settings.user, settings.secret())
    if will is not None:
        properties = None
        if modern:
            properties = _properties(PacketTypes.WILLMESSAGE)
            properties.WillDelayInterval = settings.will_delay_seconds
        client.will_set(will.topic, will.payload, will.qos, will.retain, properties)
    return client


def _connect_options(settings: MqttSettings, version: int) -> dict[str, Any]:
    if version != MQTTProtocolVersion.MQTTv5:
        return {}
    properties = _properties(PacketTypes.CONNECT)
    kept = settings.session_expiry_seconds if settings.keeps_session else 0
    properties.SessionExpiryInterval = kept
    properties.ReceiveMaximum = _RECEIVE_MAXIMUM
    properties.MaximumPacketSize = settings.max_packet
    return {"clean_start": not settings.keeps_session, "properties": properties}


def _properties(packet_type: int) -> Properties:
    return Properties(packet_type)  # type: ignore[no-untyped-call] # paho has no hints there
