"""Follower of the ledger, until a question to its state has its answer, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.simulator.errors import WaitedTooLongError

POLL_SECONDS = 0.05

Question = Callable[[State], str | None]
"""Returns what is still awaited, or None."""


@dataclass
class Follower:
    """Reads a ledger that another process writes."""

    ledger: LedgerReader
    children: Children
    show: Callable[[str], None]
    """Is told what is awaited, whenever that is something else."""
    state: State = field(init=False)
    """What was taken in."""

    def __post_init__(self) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        """Take in the entries that are new."""
        self.state = state_of(self.ledger)

    def wait(self, question: Question, seconds: float, label: str) -> None:
        """Follow the ledger until `question` is answered with None.

        Raises `WaitedTooLongError` after `seconds`, with what was awaited and the ends of the
        logs, and `ProcessDiedError` when a program ends meanwhile.
        """
        end, shown = time.monotonic() + seconds, ""
        while True:
            self.catch_up()
            awaited = question(self.state)
            if awaited is None:
                return
            if awaited != shown:
                self.show(f"{label}: waiting for {awaited}")
                shown = awaited
            self.children.check()
            if time.monotonic() > end:
                raise WaitedTooLongError(
                    f"{label}: waited {seconds:g} seconds for {awaited}; "
                    f"the ends of the logs:\n{self.children.tails()}"
                )
            time.sleep(POLL_SECONDS)
