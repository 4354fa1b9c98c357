"""Hears who connects to the broker, and names users whose password somebody else may have."""

from __future__ import annotations

import logging
import threading

from fleetledger.schemas.log_lines import LogEvent
from fleetledger.schemas.log_setup import EventLog
from fleetledger.transport.access import BROKER_LOG
from fleetledger.transport.brokers.log_watch import LogWatch, PasswordMisuse
from fleetledger.transport.clock import Clock
from fleetledger.transport.errors import ThreadEndedError
from fleetledger.transport.interface import Connection, IncomingMessage

_WAIT_SECONDS = 1.0


class BrokerWatch:
    """Takes Mosquitto's log on a connection of its own, where a flood of it delays nothing else.

    A broker that keeps its log to itself is heard of nothing.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._watch = LogWatch()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-watch", daemon=True)

    def start(self) -> None:
        """Begin to connect and to listen."""
        self._connection.subscribe(BROKER_LOG, qos=0)
        self._connection.start()
        self._thread.start()

    def stop(self) -> None:
        """End both."""
        self._stopping.set()
        self._connection.wake()
        self._thread.join()
        self._connection.stop()

    def found(self, now_ns: int) -> tuple[PasswordMisuse, ...]:
        """Return users of whom something was seen within a day."""
        with self._lock:
            return self._watch.found(now_ns)

    def _run(self) -> None:
        events = EventLog("coordinator.broker", self._clock.seconds)
        while not self._stopping.is_set():
            try:
                event = self._connection.next_event(_WAIT_SECONDS)
            except ThreadEndedError:
                return  # its own thread has said why, and the coordinator needs no watch
            if not isinstance(event, IncomingMessage):
                continue
            line = event.payload.decode("utf-8", "replace")
            with self._lock:
                first = self._watch.read(line, self._clock.time_ns())
            if first is not None:
                said = LogEvent("broker.password_misused", first.user)
                text = f"{first.sentence}: its password may be stolen, or a copy of it runs"
                events.emit(logging.WARNING, said, text)
