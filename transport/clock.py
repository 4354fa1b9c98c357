"""What time it is; given to whoever waits, so that a simulator can let time pass at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Two readings of one clock, and waiting on it; the system's own unless others are given."""

    seconds: Callable[[], float] = time.monotonic
    """Seconds that never go back, from any beginning."""
    time_ns: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""
    sleep: Callable[[float], None] = time.sleep

    def time_ms(self) -> int:
        """Return milliseconds since 1970, as envelopes carry them."""
        return self.time_ns() // 1_000_000


SYSTEM_CLOCK = Clock()


def steady_time(clock: Clock = SYSTEM_CLOCK) -> Callable[[], int]:
    """Return readings of the calendar as of now, carried on by the clock that does not go back.

    Somebody who sets the calendar while a program runs changes nothing of what it has waited for.
    """
    began_ns = clock.time_ns() - _nanoseconds(clock)
    return lambda: began_ns + _nanoseconds(clock)


def _nanoseconds(clock: Clock) -> int:
    return round(clock.seconds() * 1_000_000_000)
