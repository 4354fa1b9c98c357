"""The MQTT connection: keeps a link open, and turns what happens on it into events.

One thread owns the sequence connect, watch, wait, connect again. Each round is a fresh link, so
what an old link had in flight is forgotten here; its owner sends it again after `Connected`.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

from fleetledger.schemas.envelope import compressed
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.transport.backoff import Returns
from fleetledger.transport.errors import (
    BrokerLimitError,
    BrokerUnreachableError,
    InboxFullError,
    NotAuthorisedError,
    NotConnectedError,
    PayloadTooLargeError,
    ThreadEndedError,
    TransportError,
)
from fleetledger.transport.inbox import Inbox
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
    OutgoingMessage,
    Subscribed,
)
from fleetledger.transport.meter import Meter
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.paho_link import (
    DeliveryToken,
    NoAnswerError,
    OtherVersionError,
    PahoLink,
)

log = logging.getLogger("transport.mqtt")

_PACKET_OVERHEAD = 1024
"""Room for fixed header, topic, packet number and properties around a payload."""
LEAST_PACKET = DEFAULT_BLOCK_SIZE + 8 * _PACKET_OVERHEAD
"""Bytes that a broker must take, for a block or a payload of its size within an envelope."""
_WATCH_SECONDS = 1.0
_SILENCES = 3
"""So often a version that has worked must get no answer before another one is tried: a broker that
hangs for a moment is no older one."""


class MqttConnection:
    """A `Connection` (see `transport.interface`) over MQTT 5, or 3.1.1 where 5 gets no answer."""

    def __init__(self, settings: MqttSettings, will: OutgoingMessage | None = None) -> None:
        self.settings = settings
        self.meter = Meter()
        self._will = will
        self._inbox = Inbox(settings.inbox_messages, settings.inbox_bytes)
        self._filters: dict[str, int] = {}
        self._granted: set[str] = set()
        """Filters that the broker's session for us has, as far as it said so."""
        self._leaving: set[str] = set()
        """Filters that it may still have, and that are none of ours any more."""
        self._link: PahoLink | None = None
        self._was_connected = False
        self._overflowing = False
        self._lacking = False
        """Whether messages were left out that the broker gives again after a reconnect alone."""
        self._versions = list(settings.versions)
        self._worked: int | None = None
        self._silences = 0
        self._refusal: TransportError | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._failure: ThreadEndedError | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted us and no loss is known yet."""
        link = self._link
        return link is not None and not link.closed.is_set()

    @property
    def version(self) -> int | None:
        """Protocol level in use: 5, or 4 for MQTT 3.1.1; None while not connected."""
        link = self._link
        return link.version if link is not None else None

    @property
    def max_payload(self) -> int:
        """Our own limit, or what the broker announced less the room for a packet's header."""
        link = self._link
        if link is None or link.broker_limit is None:
            return self.settings.max_payload
        return min(self.settings.max_payload, link.broker_limit - _PACKET_OVERHEAD)

    def start(self) -> None:
        """Begin connecting in the background."""
        if self._thread is None:
            name = f"mqtt-{self.settings.client_id}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def wait_connected(self, seconds: float) -> None:
        """Wait for the connection.

        Raises `NotAuthorisedError` as soon as the broker refuses user or password, and after
        `seconds` the last failure.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.connected or isinstance(self._refusal, NotAuthorisedError), seconds
            )
            if not self.connected:
                raise (
                    self._failure
                    or self._refusal
                    or BrokerUnreachableError(
                        f"{self.settings.host}:{self.settings.port}: no answer in {seconds} s"
                    )
                )

    def stop(self) -> None:
        """Send what is queued, say goodbye and end."""
        self._stopping.set()
        link = self._link
        if link is not None:
            link.close(clean=True)
        if self._thread is not None:
            self._thread.join()
        self._inbox.wake()

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Add filters, now and after every loss of the session."""
        added = dict.fromkeys(filters, qos)
        with self._lock:
            self._filters.update(added)
            self._leaving.difference_update(added)
            link = self._link
        if link is not None:
            link.subscribe(added)

    def unsubscribe(self, *filters: str) -> None:
        """Leave filters, now and after every loss of the session."""
        with self._lock:
            for left in filters:
                self._filters.pop(left, None)
            self._granted.difference_update(filters)
            self._leaving.update(filters)
            link = self._link
        if link is not None:
            link.unsubscribe(list(filters))

    def publish(self, message: OutgoingMessage) -> None:
        """Hand `message` over, compressed where it says so; raises as the interface says."""
        if message.compressible:
            message = replace(message, payload=compressed(message.payload))
        if len(message.payload) > self.max_payload:
            raise PayloadTooLargeError(message.topic, len(message.payload), self.max_payload)
        link = self._link
        if link is None or link.closed.is_set():
            raise NotConnectedError(message.topic)
        link.publish(message)
        self.meter.sent(message.topic, len(message.payload))

    def next_event(self, seconds: float) -> Event | None:
        """Return the next event, or None after `seconds` or when woken.

        Raises `ThreadEndedError` once nothing keeps the connection open any more.
        """
        event = self._inbox.next(seconds)
        if self._failure is not None:
            raise self._failure
        return event

    def wake(self) -> None:
        """Make a waiting `next_event` return None now."""
        self._inbox.wake()

    def acknowledge(self, message: IncomingMessage) -> None:
        """Tell the broker that `message` is safe; a message of an earlier link comes again."""
        token = message.token
        if isinstance(token, DeliveryToken) and token.link is self._link:
            token.link.acknowledge(token.number)

    def opened(self, link: PahoLink, *, session_present: bool) -> None:
        """Subscribe where needed and announce the connection (network thread)."""
        with self._changed:
            self._link = link
            self._lacking = False
            self._refusal = None
            if not (session_present and self._was_connected):
                self._granted.clear()
                self._leaving.clear()
            wanted = {one: qos for one, qos in self._filters.items() if one not in self._granted}
            left = list(self._leaving)
            self._was_connected = True
            self._changed.notify_all()
        link.subscribe(wanted)
        link.unsubscribe(left)
        self._inbox.put(Connected(session_present))
        if link.broker_limit is not None and link.broker_limit < LEAST_PACKET:
            address = f"{self.settings.host}:{self.settings.port}"
            self.problem(BrokerLimitError(address, link.broker_limit, LEAST_PACKET))

    def received(self, message: IncomingMessage) -> None:
        """Queue a message; one that does not fit is left out, unacknowledged (network thread)."""
        self.meter.received(message.topic, len(message.payload))
        kept = self._inbox.put(message)
        if not kept and not self._overflowing:
            self.problem(InboxFullError(message.topic))
        self._overflowing = not kept
        if not kept and message.qos:
            # The broker waits for its acknowledgement, and gives no more once it waits for some.
            self._lacking = True

    def granted(self, filters: list[str]) -> None:
        """Note that the broker serves filters, and tell who asked for that (network thread)."""
        with self._lock:
            served = [one for one in filters if one in self._filters]
            self._granted.update(served)
        if served and self.settings.tells_subscriptions:
            self._inbox.put(Subscribed(tuple(served)))

    def left(self, filters: list[str]) -> None:
        """Note that the broker serves filters no more (network thread)."""
        with self._lock:
            self._leaving.difference_update(filters)

    def problem(self, error: TransportError) -> None:
        """Log and announce what cannot be raised to a caller (any thread)."""
        log.warning("%s: %s", self.settings.client_id, error)
        self._inbox.put(ConnectionProblem(error))

    def _run(self) -> None:
        try:
            self._keep_open()
        except Exception as error:
            log.exception("%s: the connection failed", self.settings.client_id)
            self._failure = ThreadEndedError(f"mqtt-{self.settings.client_id}", error)
            self._inbox.wake()

    def _keep_open(self) -> None:
        settings = self.settings
        returns = Returns(settings.reconnect_shortest_seconds, settings.reconnect_longest_seconds)
        while not self._stopping.is_set():
            try:
                link = self._open()
            except TransportError as error:
                self._report_refusal(error)
                away = isinstance(error, BrokerUnreachableError | NoAnswerError)
                pause = returns.after_silence() if away else returns.after_refusal()
            else:
                began = time.monotonic()
                self._watch(link)
                pause = returns.after_loss(time.monotonic() - began)
            self._stopping.wait(pause)

    def _open(self) -> PahoLink:
        failure: TransportError | None = None
        for version in list(self._versions):
            link = PahoLink(self.settings, version, self._will, self)
            try:
                link.open()
            except NoAnswerError as error:
                failure = error
                self._silences += 1
                if version == self._worked and self._silences < _SILENCES:
                    break
            except OtherVersionError as error:
                failure = error
            else:
                self._worked, self._silences = version, 0
                self._versions.remove(version)
                self._versions.insert(0, version)
                return link
        assert failure is not None, "at least one version is configured"
        raise failure

    def _watch(self, link: PahoLink) -> None:
        while not self._stopping.is_set() and not link.closed.wait(_WATCH_SECONDS):
            fault = link.fault()
            if not fault and self._lacking and self._inbox.is_empty:
                fault = "messages were left out, and come again with a new connection"
            if fault:
                log.warning("%s: %s; connecting anew", self.settings.client_id, fault)
                link.give_up(fault)
        link.close(clean=self._stopping.is_set())
        with self._lock:
            self._link = None
        self._inbox.put(Disconnected(link.reason))

    def _report_refusal(self, error: TransportError) -> None:
        with self._changed:
            news = str(error) != str(self._refusal)
            self._refusal = error
            self._changed.notify_all()
        if news:
            self.problem(error)
