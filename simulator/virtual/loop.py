"""The loop of a virtual world: what is due next happens next, in one thread.

What is due at the same moment happens in the order in which it was asked for, so a run repeats.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

from fleetledger.simulator.virtual.clock import VirtualClock

Act = Callable[[], None]
NEVER = 1e8
"""Seconds; what is due later than this is never due."""


class Loop:
    """Acts by the time at which they are due."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._due: list[tuple[float, int, Act]] = []
        self._numbers = itertools.count()

    def at(self, when: float, act: Act) -> None:
        """Have `act` called at a time, at once if that has passed."""
        heapq.heappush(self._due, (max(when, self.clock.now), next(self._numbers), act))

    def next_time(self) -> float:
        """Return when something is due; infinity if nothing ever is."""
        return self._due[0][0] if self._due else math.inf

    def step(self) -> None:
        """Let time pass to the next act, and call it; something must be due."""
        when, _, act = heapq.heappop(self._due)
        self.clock.now = when
        act()


class Endpoint:
    """A program that is stepped when it asks for it: at most one step is due at a time.

    `step` does everything that there is to do now, and returns when it wants to be called next,
    infinity for only when something comes. Two steps are at least `pause` seconds apart.
    """

    __slots__ = ("_due", "_ended", "_loop", "_pause", "_step", "_stepping", "not_before")

    def __init__(self, loop: Loop, step: Callable[[], float], pause: float = 0.0) -> None:
        self.not_before = -math.inf
        """No step happens earlier: the program is busy with something else."""
        self._loop = loop
        self._step = step
        self._pause = pause
        self._due = math.inf
        self._ended = False
        self._stepping = False

    def ask(self, when: float = -math.inf) -> None:
        """Have the program stepped at a time, by default now."""
        now = self._loop.clock.now
        if when - now > NEVER or (self._stepping and when <= now):
            return  # the step that is under way takes it in
        when = max(when, self.not_before, now)
        if when < self._due and not self._ended:
            self._due = when
            self._loop.at(when, self._fire)

    def end(self) -> None:
        """Step it no more."""
        self._ended = True

    def _fire(self) -> None:
        now = self._loop.clock.now
        if self._ended or now < self._due:
            return  # it was stepped meanwhile, and another step is due later
        self._due = math.inf
        if now < self.not_before:
            self.ask()
            return
        self._stepping = True
        try:
            again = self._step()
        finally:
            self._stepping = False
        if self._pause:
            self.not_before = max(self.not_before, now + self._pause)
        self.ask(again)
