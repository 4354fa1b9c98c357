"""What light agents stand on: all of them, and those that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetledger.coordinator.core import inputs
from fleetledger.methods.training.exchange import RoundParts
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.values import BootId, ClassName, DeviceId
from fleetledger.simulator.engines.inprocess.light.answer_hasher import AnswerHasher
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.coordinator import LightCoordinator
from fleetledger.simulator.engines.inprocess.light.holdings import Holdings
from fleetledger.simulator.engines.inprocess.light.memories import Memories
from fleetledger.simulator.engines.inprocess.light.traffic import Traffic
from fleetledger.simulator.engines.inprocess.light.workers.lots import LotDealer
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.stopwatch import Stopwatch


@dataclass(frozen=True)
class LightContext:
    """A coordinator, and what is counted of its devices."""

    coordinator: LightCoordinator
    clock: VirtualClock
    stopwatch: Stopwatch
    traffic: Traffic
    progress: Callable[[int], None]
    """Told how many of those who are asked are done."""
    computing: dict[DeviceId, float] = field(default_factory=dict)
    """Seconds that each device has computed."""

    def spent(self, device: DeviceId, seconds: float) -> None:
        """Count seconds of a device."""
        self.computing[device] = self.computing.get(device, 0.0) + seconds

    def sent_ms(self) -> int:
        """Return the fleet's time in milliseconds."""
        return self.clock.time_ns() // 1_000_000


Compare = Callable[[int, Sequence[ClassName], RoundParts], None]
"""Is given a round's number, the rows of its head, and the models in its answers."""


class TakesGradients(Protocol):
    """A proxy, as devices know it."""

    def give(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        """Take gradients of a device."""


@dataclass(frozen=True)
class TrainingContext:
    """What rounds stand on, beside that."""

    holdings: Holdings
    memories: Memories
    place: CohortResources
    hasher: AnswerHasher
    """Hashes what is trained in this process."""
    dealer: LotDealer | None
    """Trains beside this process."""
    proxy: TakesGradients | None = None
    """None where the method has none."""
    withheld: str = ""
    """What devices say that train: why their owners keep gradients from the proxy."""
    compare: Compare | None = None
    """Is given what answers to a round held; None where nobody compares."""
    told: set[DeviceId] = field(default_factory=set)
    """Who has said it since it is there."""

    def close(self) -> None:
        """End the programs beside this one."""
        self.hasher.close()
        self.memories.close()
        if self.dealer is not None:
            self.dealer.close()


def device_message(
    context: LightContext, device: DeviceId, message: Message, boot: BootId | None = None
) -> inputs.DeviceMessage:
    """Return a message as it comes from a device."""
    known = context.coordinator.live.device(device).boot
    own = boot or known
    assert own is not None, "devices that are away say nothing"
    sender = Sender(context.coordinator.fleet, device, own)
    return inputs.DeviceMessage(device, sender.seal(message, sent_ms=context.sent_ms()))
