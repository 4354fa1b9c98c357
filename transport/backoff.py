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


_LOST_SHARE = 1 / 8
_STABLE = 5.0


class Returns:
    """When to come back to a broker, by how the last attempt ended.

    A broker that cannot be reached or refuses us is tried again after `shortest` to `longest`
    seconds, one that took us and was lost after an eighth of `longest` at most. A connection that
    lived for five times `longest` ends the row of losses, and so does a broker that could not be
    reached.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._refused = Backoff(shortest, longest)
        self._lost = Backoff(shortest, max(shortest, _LOST_SHARE * longest))
        self._stable = _STABLE * longest

    def after_refusal(self) -> float:
        """Return how long to wait after a broker was reached and did not let us in."""
        return self._refused.next()

    def after_silence(self) -> float:
        """Return how long to wait after no broker could be reached."""
        self._lost.reset()
        return self._refused.next()

    def after_loss(self, lived: float) -> float:
        """Return how long to wait after a connection that lived for so many seconds."""
        self._refused.reset()
        if lived >= self._stable:
            self._lost.reset()
        return self._lost.next()
