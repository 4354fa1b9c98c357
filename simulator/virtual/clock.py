"""Virtual time: it stands still while something happens, and leaps to what happens next."""

from __future__ import annotations

from fleetledger.transport.clock import Clock

BEGINNING_NS = 1_577_836_800_000_000_000
"""2020-01-01 00:00 UTC, when every virtual fleet begins, so that equal runs are equal."""
_NANOSECONDS = 1_000_000_000


class VirtualClock:
    """Seconds since the beginning; the loop alone moves them."""

    def __init__(self, time_ns: int = BEGINNING_NS) -> None:
        self.now = (time_ns - BEGINNING_NS) / _NANOSECONDS
        self.readings = Clock(self.seconds, self.time_ns, lambda _: None)
        """The clock as programs read it; waiting on it takes no time."""

    def seconds(self) -> float:
        """Return seconds since the beginning."""
        return self.now

    def time_ns(self) -> int:
        """Return nanoseconds since 1970."""
        return BEGINNING_NS + round(self.now * _NANOSECONDS)

    def at(self, time_ns: int) -> float:
        """Return the seconds of a time in nanoseconds since 1970."""
        return (time_ns - BEGINNING_NS) / _NANOSECONDS
