"""The proxy of light agents that act: the same program, stepped by the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.schemas.envelope import PROXY, decode
from fleetledger.schemas.message import Message
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Later, Receipt
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.engines.inprocess.home import FLEET
from fleetledger.simulator.engines.inprocess.light.context import LightContext
from fleetledger.simulator.engines.inprocess.light.proxy import LightProxy
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import TimedCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld
from fleetledger.simulator.engines.inprocess.light.traffic import Traffic
from fleetledger.simulator.virtual.loop import Endpoint
from fleetledger.simulator.virtual.proxy import PAUSE_SECONDS, InlineScoring
from fleetledger.transport.interface import OutgoingMessage

Answer = Callable[[DeviceId, Message, int], None]
"""Is given what a device is told, with its bytes."""


class TimedProxy(LightProxy):
    """A proxy that lives in `home`, at some distance from everybody."""

    name = PROXY

    def __init__(
        self,
        world: TimedWorld,
        coordinator: TimedCoordinator,
        home: Path,
        settings: ProxyHomeSettings,
        boot: BootId,
    ) -> None:
        self.answer: Answer = lambda _device, _body, _size: None
        """Told what devices are answered."""
        self._world = world
        self._coordinator = coordinator
        self._endpoint = Endpoint(world.loop, self._step, pause=PAUSE_SECONDS)
        context = LightContext(
            coordinator, world.loop.clock, world.stopwatch, Traffic(FLEET), lambda _: None
        )
        super().__init__(context, home, settings, boot, InlineScoring(world, self._endpoint.ask))
        self._endpoint.ask()
        coordinator.connect(self)

    def give(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        """Let gradients of a device arrive."""
        self._arrived(device, body, payload)
        self._endpoint.ask()

    def hear(self, body: Message, size: int) -> None:
        """Let an order arrive, or a receipt."""
        if isinstance(body, ScoringOrder | Receipt):
            self.told(body)
            self._endpoint.ask()

    def close(self) -> None:
        """Close its files and be stepped no more."""
        self._endpoint.end()
        super().close()

    def _step(self) -> float:
        self._work()
        for message in self._mailbox.said():
            self._say(message)
        return self._program.wake_at

    def _say(self, message: OutgoingMessage) -> None:
        envelope = decode(message.payload)
        if message.topic == str(self._ordinary.up(PROXY, "msg")):
            said = inputs.DeviceMessage(PROXY, envelope)
            self._world.carry(("from", PROXY), partial(self._coordinator.hear, said))
            return
        device, receipt = self._branch.parse(message.topic).device, envelope.read(Receipt)
        assert receipt.payload is not None
        self._given.pop((device, receipt.payload), None)
        if not isinstance(receipt.answer, Later):
            self._payloads.pop(receipt.payload, None)
        answer = partial(self.answer, device, receipt, len(message.payload))
        self._world.carry(("to", device), answer)
