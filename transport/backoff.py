"""How long to wait before trying again: doubling, bounded, with jitter."""

from __future__ import annotations

import random


class Backoff:
    """Waiting times that double from `shortest` to `longest` seconds, each times 0.5 to 1.

    The jitter keeps a fleet from returning to a restarted broker in one moment.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self._next = shortest
        self._random = random.Random()  # noqa: S311 - spreads load, protects nothing

    def next(self) -> float:
        """Return the next waiting time in seconds."""
        wait = self._next * self._random.uniform(0.5, 1.0)
        self._next = min(self._longest, 2 * self._next)
        return wait

    def reset(self) -> None:
        """Begin again with the shortest time."""
        self._next = self._shortest


_QUICK_LOSSES = 5
_QUICK_SHARE = 1 / 8
_PATIENCE_AFTER_LOSSES = 4.0
_STABLE = 5.0


class Returns:
    """When to come back to a broker, by how the last attempt ended.

    A broker that cannot be reached is tried again after `shortest` to `longest` seconds. A link
    that was lost may have been taken over by another program with our client id, which most brokers
    do not say. So after five losses that follow each other, as of a broker that is restarted again
    and again, the waits grow to four times `longest`: two such programs push each other out at most
    once a minute by default. A connection that lived for five times `longest` ends the row, and so
    does a broker that could not be reached: it is the reason then.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        quick = max(shortest, _QUICK_SHARE * longest)
        self._refused = Backoff(shortest, longest)
        self._lost = Backoff(shortest, quick)
        self._disputed = Backoff(quick, _PATIENCE_AFTER_LOSSES * longest)
        self._stable = _STABLE * longest
        self.losses = 0
        """Connections lost one after the other, while the broker answered."""

    def after_refusal(self) -> float:
        """Return how long to wait after a broker was reached and did not let us in."""
        return self._refused.next()

    def after_silence(self) -> float:
        """Return how long to wait after no broker could be reached."""
        self._end_row()
        return self._refused.next()

    def after_loss(self, lived: float) -> float:
        """Return how long to wait after a connection that lived for so many seconds."""
        self._refused.reset()
        if lived >= self._stable:
            self._end_row()
        self.losses += 1
        return (self._lost if self.losses <= _QUICK_LOSSES else self._disputed).next()

    def _end_row(self) -> None:
        self.losses = 0
        self._lost.reset()
        self._disputed.reset()
