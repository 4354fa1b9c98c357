"""Scoring of a simulated proxy, and what it sends and receives.

What it computes is done when it is handed in, and is known some fixed time later by the fleet's
clock, so that equal runs tell the coordinator equal things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleetledger.coordinator.proxy.decision import Input
from fleetledger.coordinator.proxy.records import OrderScored
from fleetledger.schemas.envelope import PROXY
from fleetledger.simulator.virtual.world import World
from fleetledger.transport.meter import Counts, Meter
from fleetledger.transport.results import JobQueue

PAUSE_SECONDS = 0.02
"""Between two steps, so that time goes on whatever is due."""
WORK_SECONDS = 1.0
"""Of a score, and of a look at gradients, by the fleet's clock."""


class InlineScoring(JobQueue[Input]):
    """Scoring without a thread; `wake` is called when there are results."""

    def __init__(self, world: World, wake: Callable[[], None]) -> None:
        super().__init__(wake, "scoring")
        self._world = world

    def submit(self, job: Callable[[], Input], thread: str = "") -> None:
        """Do a job now; its result is there when the time for it is over."""
        with self._world.stopwatch.phase("proxy"):
            result = in_fleet_time(job())
        loop = self._world.loop
        loop.at(loop.clock.now + WORK_SECONDS, lambda: self.put(result))


@dataclass(frozen=True)
class ProxyTraffic:
    """What a proxy has sent and received, messages and blocks."""

    coordinator: Counts
    """On the fleet's ordinary branch: orders, scores, and the models that it scores."""
    devices: Counts
    """On its own branch: gradients and receipts."""

    @classmethod
    def of(cls, control: Meter, models: Counts, gradients: Counts) -> ProxyTraffic:
        """Return what messages and files of each branch came to."""
        by_class = control.by_class().items()
        own = sum((carried for kind, carried in by_class if kind.startswith(PROXY)), Counts())
        return cls(models + control.total() - own, gradients + own)

    def __sub__(self, other: ProxyTraffic) -> ProxyTraffic:
        return ProxyTraffic(self.coordinator - other.coordinator, self.devices - other.devices)


def in_fleet_time(result: Input) -> Input:
    """Return a result that says nothing of this machine's clock."""
    if not isinstance(result, OrderScored):
        return result
    answer = result.scored.answer.model_copy(update={"seconds": WORK_SECONDS})
    return replace(result, scored=replace(result.scored, answer=answer))
