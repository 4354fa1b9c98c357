"""The operator's hand in a fleet of whole agents: it closes a stage as soon as it may."""

from __future__ import annotations

import math

from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.simulator.engines.inprocess.expected_answers import ExpectedAnswers
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.inprocess.progress import Progress
from fleetledger.simulator.virtual.loop import Endpoint


class StageCloser:
    """Watches one stage."""

    def __init__(self, fleet: Fleet, progress: Progress, expected: ExpectedAnswers) -> None:
        self._fleet = fleet
        self._progress = progress
        self._expected = expected
        self._hand = Endpoint(fleet.world.loop, self._act)

    def close_if_due(self) -> None:
        """Look at the ledger, which has new entries."""
        if not self._expected.is_everybody(self._fleet.coordinator.state):
            self._hand.ask()

    def _act(self) -> float:
        state, clock = self._fleet.coordinator.state, self._fleet.world.loop.clock
        due = self._expected.closes_at(state, self._progress.stages, clock)
        if due <= clock.now:
            self._fleet.coordinator.inbox.submit(CloseStage())
            return math.inf
        return due
