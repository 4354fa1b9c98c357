"""The operator's part in closing a stage: not to wait for devices that are not there any more.

The coordinator counts its quorum over all admitted devices. Devices that have left the fleet, or
that are not asked in a stage, will never answer; so the operator closes the stage by hand when the
quorum of those who are there has answered and nothing has come for a while, as the coordinator
would do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.inprocess.home import QUIET_SECONDS
from fleetledger.simulator.engines.inprocess.progress import Progress
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Endpoint


@dataclass(frozen=True)
class ExpectedAnswers:
    """Devices that may still answer, and the share of them that is enough."""

    devices: tuple[DeviceId, ...]
    quorum: float

    def is_everybody(self, state: State) -> bool:
        """Whether the coordinator waits for nobody else."""
        return state.devices.admitted.keys() <= self._names

    @cached_property
    def _names(self) -> frozenset[DeviceId]:
        return frozenset(self.devices)

    def closes_at(self, state: State, numbers: tuple[int, ...], clock: VirtualClock) -> float:
        """Return when the operator closes the open stage by hand; infinity while others do.

        `numbers` are the ledger's stages of that which is led.
        """
        open_, given = state.stages.open, state.contributions
        last = given.last_answer_ns.get(open_ or 0)
        # Rounds wait for those alone who are connected.
        if open_ is None or last is None or state.lineages.in_rounds or open_ not in numbers:
            return math.inf
        answered = sum(given.of(name).answered(open_) for name in self.devices)
        if answered < math.ceil(self.quorum * len(self.devices)):
            return math.inf
        return clock.at(last) + QUIET_SECONDS


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
