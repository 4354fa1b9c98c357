"""A disk that refuses what is to be written: when it is tried again, and what is said of it."""

from __future__ import annotations

import logging

from fleetledger.runtime.log_lines import about
from fleetledger.transport.backoff import Backoff
from fleetledger.transport.clock import Clock

log = logging.getLogger("coordinator")

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.5, 10.0


class RefusingDisk:
    """Attempts with growing waits: one line when it begins, one when it is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backoff = Backoff(_SHORTEST_SECONDS, _LONGEST_SECONDS)
        self._began = 0.0
        self._next = 0.0
        self._attempts = 0
        self.hindered = ""
        """What is refused just now and what it means, in words; empty while nothing is."""

    def refused(self, error: Exception, consequence: str) -> None:
        """Note a failed attempt; `consequence` is what it means for whoever waits."""
        now = self._clock.seconds()
        self.hindered = f"{error}. {consequence}; it is tried again until it succeeds"
        if self._attempts == 0:
            self._began = now
            log.error("%s", self.hindered, extra=about("disk.refused"))
        self._attempts += 1
        self._next = now + self._backoff.next()

    def took(self) -> None:
        """Note that an attempt succeeded."""
        if self._attempts:
            seconds = self._clock.seconds() - self._began
            text = "written after all, after %.0f s, %d times refused"
            log.warning(text, seconds, self._attempts, extra=about("disk.wrote"))
        self._attempts, self._next, self.hindered = 0, 0.0, ""
        self._backoff.reset()

    def seconds_left(self) -> float:
        """Return how long to wait before the next attempt; 0 while nothing is refused."""
        return max(0.0, self._next - self._clock.seconds()) if self._attempts else 0.0
