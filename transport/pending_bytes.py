"""Bytes that were handed over and are not finished, which bound the outgoing queue at every QoS.

paho bounds only the number of QoS 1 messages and leaves QoS 0 unbounded, so blocks for a slow link
would pile up in memory.
"""

from __future__ import annotations

import threading

from fleetledger.transport.errors import QueueFullError


class PendingBytes:
    """Bytes handed over under a message number and not yet reported as finished.

    A message may finish before its number is known to the caller of `publish`, because the network
    thread can be faster; such numbers are kept until `placed` asks for them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting = 0
        self._placed: dict[int, tuple[str, int]] = {}
        self._early: set[int] = set()
        self._changed = threading.Condition()

    def reserve(self, topic: str, size: int) -> None:
        """Count `size` bytes as waiting; raise `QueueFullError` if they do not fit.

        A single message always fits an empty queue.
        """
        with self._changed:
            if self._waiting and self._waiting + size > self._limit:
                raise QueueFullError(topic, self._waiting, self._limit)
            self._waiting += size

    def placed(self, number: int, topic: str, size: int) -> None:
        """Name a reservation by its message number."""
        with self._changed:
            if number in self._early:
                self._early.discard(number)
                self._release(size)
            else:
                self._placed[number] = (topic, size)

    def cancel(self, size: int) -> None:
        """Take back a reservation that was not handed over after all."""
        with self._changed:
            self._release(size)

    def finished(self, number: int) -> str | None:
        """Release a message; return its topic if it was placed already."""
        with self._changed:
            if number not in self._placed:
                self._early.add(number)
                return None
            topic, size = self._placed.pop(number)
            self._release(size)
            return topic

    def wait_empty(self, seconds: float) -> bool:
        """Wait until nothing is pending; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting == 0, seconds)

    def _release(self, size: int) -> None:
        self._waiting -= size
        self._changed.notify_all()
