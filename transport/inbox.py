"""The bounded queue between a network thread and whoever reads events."""

from __future__ import annotations

import threading
import time
from collections import deque

from fleetledger.transport.interface import ConnectionProblem, Event, IncomingMessage


class Inbox:
    """Events in order of arrival; messages are bounded by number and bytes, problems by number.

    `put` refuses what does not fit, so a slow reader costs messages and never memory. `Connected`
    and `Disconnected` always fit: the back-off bounds them. The number of messages that have to be
    acknowledged is bounded by the broker, though not strictly by each; here their bytes alone are.
    """

    def __init__(self, max_messages: int = 1_000, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._bounded = 0
        self._bytes = 0
        self._woken = False
        self._changed = threading.Condition()

    def put(self, event: Event) -> bool:
        """Append `event`; return False, leaving it out, when there is no room for it."""
        with self._changed:
            if isinstance(event, (IncomingMessage, ConnectionProblem)):
                if not self._has_room(event):
                    return False
                self._bounded += _counts(event)
                self._bytes += _size(event)
            self._events.append(event)
            self._changed.notify()
        return True

    def next(self, seconds: float) -> Event | None:
        """Return the oldest event, or None after `seconds` or when woken."""
        end = time.monotonic() + seconds
        with self._changed:
            while not self._events and not self._woken:
                remaining = end - time.monotonic()
                if remaining <= 0:
                    return None
                self._changed.wait(remaining)
            self._woken = False
            return self._take() if self._events else None

    def wake(self) -> None:
        """Make the waiting, or else the following, `next` return at once."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken."""
        with self._changed:
            return not self._events

    def _has_room(self, event: IncomingMessage | ConnectionProblem) -> bool:
        if self._bytes and self._bytes + _size(event) > self._max_bytes:
            return False
        return self._bounded < self._max_messages or not _counts(event)

    def _take(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, (IncomingMessage, ConnectionProblem)):
            self._bounded -= _counts(event)
            self._bytes -= _size(event)
        return event


def _size(event: IncomingMessage | ConnectionProblem) -> int:
    return len(event.payload) if isinstance(event, IncomingMessage) else 0


def _counts(event: IncomingMessage | ConnectionProblem) -> int:
    """Return 1 for what is bounded by number."""
    return int(not isinstance(event, IncomingMessage) or event.qos == 0)
