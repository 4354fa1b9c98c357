"""How many blocks to have under way, and when to ask again: measured, never configured.

- The rate of a block is what arrived between asking for it and having it, divided by that time; the
  estimate is a moving average over blocks.
- A quarter of a second of the measured rate is under way, because whatever shares the link waits
  behind it; at least one block, and at most 4 MiB. Part of a block counts as one: a window that is
  rounded down to one block keeps the rate so low that it stays there.
- Blocks come together in one message, up to 256 KiB and a quarter of what is under way.
- A block is asked for again after three smoothed round trips, at the earliest after 1.5 seconds.
  Blocks that were asked for twice do not enter the round trip, since nobody knows which request
  was answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

_QUEUE_SECONDS = 0.25
_FIRST_WINDOW = 4
_MAX_WINDOW_BYTES = 4 * 1024 * 1024
_MESSAGE_BYTES = 256 * 1024
_SHORTEST_RETRY_SECONDS = 1.5
_ROUND_TRIPS = 3.0
_RATE_GAIN = 0.25
_ROUND_TRIP_GAIN = 0.125
_CLOCK_STEP = 1e-4
"""Shortest time that is told from none, so that a coarse clock measures no infinite rate."""


@dataclass(frozen=True)
class RequestedBlock:
    """When a block was asked for, what had been delivered by then, and whether for the first time.

    `delivered` is in bytes, `at` in seconds.
    """

    at: float
    delivered: int
    first: bool


@dataclass
class Pacer:
    """Measures one transfer. Times are seconds on any clock that does not go back."""

    block_size: int
    delivered: int = 0
    """Bytes that arrived so far."""
    rate: float | None = None
    """Bytes per second."""
    round_trip: float | None = None
    """Smoothed seconds from request to block."""

    def arrived(self, size: int, asked: RequestedBlock, now: float) -> None:
        """Learn from a block of `size` bytes."""
        self.delivered += size
        elapsed = max(now - asked.at, _CLOCK_STEP)
        self.rate = _blend(self.rate, (self.delivered - asked.delivered) / elapsed, _RATE_GAIN)
        if asked.first:
            self.round_trip = _blend(self.round_trip, elapsed, _ROUND_TRIP_GAIN)

    def came(self, size: int) -> None:
        """Count `size` bytes that nobody was asked for: they took their part of the rate."""
        self.delivered += size

    @property
    def window(self) -> int:
        """Blocks that may be under way."""
        most = max(1, _MAX_WINDOW_BYTES // self.block_size)
        if self.rate is None:
            return min(_FIRST_WINDOW, most)
        return min(max(1, ceil(_QUEUE_SECONDS * self.rate / self.block_size)), most)

    @property
    def together(self) -> int:
        """Blocks that may come in one message: several where the link is quick, 256 KiB at most."""
        return max(1, min(self.window // 4, _MESSAGE_BYTES // self.block_size))

    @property
    def retry_after(self) -> float:
        """Seconds after which a block is asked for again."""
        return max(_SHORTEST_RETRY_SECONDS, _ROUND_TRIPS * (self.round_trip or 0.0))


def _blend(old: float | None, new: float, gain: float) -> float:
    return new if old is None else old + gain * (new - old)
