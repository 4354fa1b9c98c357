"""Where the real time goes: seconds by phase; what a phase does inside another counts once.

Whatever the phase, the seconds in which it waited for an accelerator are a phase of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleetledger.learning.numerics.accelerator import taken_waits

WAITING = "waiting"


class Stopwatch:
    """Seconds of each phase since `take` was last called."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._inside: list[float] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's seconds for a phase, without those of phases inside it."""
        self._inside.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._split(name, spent - self._inside.pop())
            if self._inside:
                self._inside[-1] += spent

    def spent(self, name: str, seconds: float) -> None:
        """Count seconds for a phase whose name was not known before."""
        self._split(name, seconds)
        if self._inside:
            self._inside[-1] += seconds

    def _split(self, name: str, seconds: float) -> None:
        waited = taken_waits(seconds)
        self._add(name, seconds - waited)
        if waited:
            self._add(WAITING, waited)

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Return the seconds by phase, and begin anew; waits in none of them are forgotten."""
        taken_waits(math.inf)
        taken, self._seconds = self._seconds, {}
        return taken
