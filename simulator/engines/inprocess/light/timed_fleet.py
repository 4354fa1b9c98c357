"""Fleet of light agents that act: what a scenario asks decides by which rules."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.device_agent.core.session import (
    ACTING,
    COMPARING,
    MEASURING,
    TRAINED,
    Rule,
    in_order,
)
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.inprocess.home import rules_of, settings_of
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import TimedCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_device import (
    FleetFiles,
    TimedContext,
    TimedDevice,
)
from fleetledger.simulator.engines.inprocess.light.timed_memory import MemoryFile
from fleetledger.simulator.engines.inprocess.light.timed_proxy import TimedProxy
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import trainer_of


class TimedFleet(Fleet):
    """Fleet of one run in `folder`, without the agents' programs."""

    world: TimedWorld
    coordinator: TimedCoordinator
    devices: dict[DeviceId, TimedDevice]
    proxy: TimedProxy | None

    def _populate(self, home: Path, boot: BootId, time_ns: int) -> None:
        scenario = self._prepared.scenario
        self.world = TimedWorld.made(self._seed, scenario.engine.latency_ms / 1000, time_ns)
        self.coordinator = TimedCoordinator(self.world, home, boot)
        memories = MemoryFile(self._folder / "agents" / "memories.db")
        files = FleetFiles(self._folder / "files", self.coordinator.blobs.get, memories.held())
        self._context = TimedContext(
            world=self.world,
            coordinator=self.coordinator,
            files=files,
            resources=self._resources(files),
            decides_by=rules_of(scenario),
            rules=_asked_rules(scenario),
            capabilities=find_capabilities(),
            settings=settings_of(scenario),
            agents=self._folder / "agents",
            seed=self._seed,
            era=self._era,
            rollout=self._rollout_gear(),
            memories=memories,
            to_proxy=self._to_proxy,
        )
        self.coordinator.before_commit = self._context.remember

    def _made_proxy(self, home: Path, settings: ProxyHomeSettings, boot: BootId) -> TimedProxy:
        proxy = TimedProxy(self.world, self.coordinator, home, settings, boot)
        proxy.answer = lambda name, body, size: self.device(name).hear(body, size)
        return proxy

    def _to_proxy(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        assert self.proxy is not None, "nobody gives gradients without"
        self.world.carry(("from", device), partial(self.proxy.give, device, body, payload))

    def device(self, name: DeviceId) -> TimedDevice:
        """Return a device of the plan, whether it is on or off."""
        if name not in self.devices:
            self.devices[name] = TimedDevice(self._context, name)
        return self.devices[name]

    def close(self) -> None:
        """Close all files."""
        super().close()
        self._context.memories.close()


def _asked_rules(scenario: Scenario) -> tuple[Rule, ...]:
    """Return the rules that may have something to do in a scenario."""
    chosen, rollout = ACTING, scenario.rollout
    if scenario.detection.mode != "off":
        chosen |= MEASURING
    if rollout is not None:
        chosen |= COMPARING
    if trainer_of(scenario) is not None or (
        rollout is not None and rollout.candidate.kind == "adapted"
    ):
        chosen |= TRAINED
    return in_order(chosen)
