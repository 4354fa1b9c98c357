"""Follower of the ledger, until a question to the view has its answer, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.simulator.engines.mqtt.view import FleetView
from fleetledger.simulator.engines.recorder import Recorded
from fleetledger.simulator.errors import WaitedTooLongError

POLL_SECONDS = 0.05

EntrySource = Callable[[int], Iterable[Recorded]]
"""Returns the entries from an index on."""
Question = Callable[[FleetView], str | None]
"""Returns what is still awaited, or None."""


@dataclass
class Follower:
    """Keeps a view up to date with a ledger that another process writes."""

    source: EntrySource
    children: Children
    show: Callable[[str], None]
    """Is told what is awaited, whenever that is something else."""
    view: FleetView = field(default_factory=FleetView)

    def catch_up(self) -> None:
        """Take in the entries that are new."""
        for body, device, time_ns in self.source(self.view.state.size):
            self.view.apply(body, device, time_ns)

    def wait(self, question: Question, seconds: float, label: str) -> None:
        """Follow the ledger until `question` is answered with None.

        Raises `WaitedTooLongError` after `seconds`, with what was awaited and the ends of the
        logs, and `ProcessDiedError` when a program ends meanwhile.
        """
        end, shown = time.monotonic() + seconds, ""
        while True:
            self.catch_up()
            awaited = question(self.view)
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
