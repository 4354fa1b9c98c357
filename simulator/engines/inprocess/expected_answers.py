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
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.home import QUIET_SECONDS
from fleetledger.simulator.virtual.clock import VirtualClock


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
