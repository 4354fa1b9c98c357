"""What all rounds of light agents stand on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemas.values import DeviceId
from simulator.engines.inprocess.light.cohort import CohortResources
from simulator.engines.inprocess.light.coordinator import LightCoordinator
from simulator.engines.inprocess.light.holdings import Holdings
from simulator.engines.inprocess.light.memories import Memories
from simulator.engines.inprocess.light.packing import Packer
from simulator.engines.inprocess.light.traffic import Traffic
from simulator.engines.inprocess.light.workers import WorkerPool
from simulator.virtual.clock import VirtualClock
from simulator.virtual.stopwatch import Stopwatch


@dataclass(frozen=True)
class LightContext:
    """A coordinator, and what there is of its devices."""

    coordinator: LightCoordinator
    clock: VirtualClock
    stopwatch: Stopwatch
    holdings: Holdings
    memories: Memories
    place: CohortResources
    packer: Packer
    """Packs what is trained in this process."""
    pool: WorkerPool | None
    """Trains beside this process."""
    traffic: Traffic
    progress: Callable[[int], None]
    """Told how many of a round's cohort are done."""
    computing: dict[DeviceId, float] = field(default_factory=dict)
    """Seconds that each device has computed."""

    def spent(self, device: DeviceId, seconds: float) -> None:
        """Count seconds of a device."""
        self.computing[device] = self.computing.get(device, 0.0) + seconds

    def sent_ms(self) -> int:
        """Return the fleet's time in milliseconds."""
        return self.clock.time_ns() // 1_000_000
