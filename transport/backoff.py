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
