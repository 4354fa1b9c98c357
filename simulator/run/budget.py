"""The time that a process may spend on a run: after it a run stops where it can be gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleetledger.simulator.errors import SimulatorError


class BudgetSpentError(SimulatorError):
    """The time is over, and what was begun last is finished."""


class Budget:
    """So many seconds from now on; None never ends."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock()

    def check(self) -> None:
        """Raise `BudgetSpentError` once the time is over."""
        if self.seconds is not None and self._clock() - self._began >= self.seconds:
            raise BudgetSpentError(f"budget: {self.seconds:g} s are spent")
