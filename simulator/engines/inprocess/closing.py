"""The operator's part in closing a stage: not to wait for devices that are not there any more.

The coordinator counts its quorum over all admitted devices. Devices that have left the fleet, or
that are not asked in a stage, will never answer; so the operator closes the stage by hand when the
quorum of those who are there has answered and nothing has come for a while, as the coordinator
would do.
"""

from __future__ import annotations

import math

from coordinator.topics.stages.commands import CloseStage
from schemas.values import DeviceId
from simulator.engines.inprocess.fleet import Fleet
from simulator.engines.inprocess.home import QUIET_SECONDS
from simulator.engines.inprocess.progress import Progress
from simulator.virtual.loop import Endpoint


class Closing:
    """Watches one stage; `expected` are the devices that may still answer."""

    def __init__(
        self, fleet: Fleet, progress: Progress, expected: tuple[DeviceId, ...], quorum: float
    ) -> None:
        self._fleet = fleet
        self._progress = progress
        self._expected = expected
        self._needed = math.ceil(quorum * len(expected))
        self._may_answer = frozenset(expected)
        self._hand = Endpoint(fleet.world.loop, self._act)

    def look(self) -> None:
        """Look at the ledger, which has new entries."""
        if self._fleet.coordinator.state.devices.admitted.keys() - self._may_answer:
            self._hand.ask()

    def _act(self) -> float:
        state, clock = self._fleet.coordinator.state, self._fleet.world.loop.clock
        stage = state.stages.by_number.get(state.stages.current or 0)
        last = state.contributions.last_answer_ns.get(state.stages.current or 0)
        if stage is None or stage.closed_index is not None or last is None:
            return math.inf
        if state.lineages.in_rounds:
            return math.inf  # rounds wait for those alone who are connected
        if state.stages.current not in self._progress.stages:
            return math.inf
        answered = sum(
            state.contributions.of(n).answered(state.stages.current) for n in self._expected
        )
        if answered < self._needed:
            return math.inf
        quiet = clock.at(last) + QUIET_SECONDS
        if clock.now < quiet:
            return quiet
        self._fleet.coordinator.inbox.submit(CloseStage())
        return math.inf
