"""The fleet of a run in one process: a coordinator, and the devices of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.device_agent.core.session import (
    ACTING,
    COMPARING,
    MEASURING,
    TRAINED,
    Rule,
    in_order,
)
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.inprocess.home import (
    FLEET,
    last_moment,
    make_home,
    rules_of,
    settings_of,
)
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import TimedCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_device import (
    FleetFiles,
    TimedContext,
    TimedDevice,
)
from fleetledger.simulator.engines.inprocess.light.timed_memory import MemoryFile
from fleetledger.simulator.engines.inprocess.light.timed_proxy import TimedProxy
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.rounds import first_lineage
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.presence import draw_slowness
from fleetledger.simulator.rollouts.held_out import HeldOut, RolloutFleet, RolloutGear
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import trainer_of
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.device_jobs import Resources
from fleetledger.simulator.virtual.models import SharedModels
from fleetledger.simulator.virtual.parts import Delivery, Lister
from fleetledger.simulator.virtual.proxy import ProxyTraffic
from fleetledger.simulator.virtual.scenes import sized_samples
from fleetledger.simulator.virtual.seeds import seeded_boot
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.training import TrainerPool, TrainerPoolSettings
from fleetledger.transport.meter import Counts

_COMMAND_SECONDS = 60.0


class Fleet:
    """Fleet of one run in `folder`. Resumes a run that was interrupted."""

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        self._prepared = prepared
        self._folder = folder
        seed, scenario, home = prepared.plan.seed, prepared.scenario, folder / "coordinator"
        make_home(home, scenario, seed)
        era, time_ns = last_moment(home)
        self.devices: dict[DeviceId, TimedDevice] = {}
        self.world = TimedWorld.made(seed, scenario.engine.latency_ms / 1000, time_ns)
        self.coordinator = TimedCoordinator(self.world, home, seeded_boot(seed, "coordinator", era))
        self._context = self._made_context(era)
        self.coordinator.before_commit = self._context.remember
        self.coordinator.start()
        if self.coordinator.state.lineages.current is None:
            self.command(first_lineage(home, prepared))
        self.proxy: TimedProxy | None = None
        if self.coordinator.state.lineages.with_proxy is not None:
            settings = ProxyHomeSettings(fleet=FLEET, device=scenario.engine.device)
            boot = seeded_boot(seed, "proxy", era)
            self.proxy = TimedProxy(self.world, self.coordinator, folder / "proxy", settings, boot)
            self.proxy.answer = lambda name, body, size: self.device(name).hear(body, size)

    def device(self, name: DeviceId) -> TimedDevice:
        """Return a device of the plan, whether it is on or off."""
        if name not in self.devices:
            self.devices[name] = TimedDevice(self._context, name)
        return self.devices[name]

    def command(self, command: Command) -> None:
        """Have the coordinator carry out a command; raise `EngineError` if it refuses."""
        inbox = self.coordinator.inbox
        ticket = inbox.submit(command)
        limit = self.world.now + _COMMAND_SECONDS
        while (answer := inbox.answer_to(ticket)) is None:
            if self.world.loop.next_time() > limit:
                raise EngineError(f"{command.verb}: the coordinator does not answer")
            self.world.loop.step()
        if not answer.done:
            raise EngineError(f"{command.verb}: {answer.text}")

    def admit(self, devices: Iterable[DeviceId]) -> None:
        """Admit the devices that are not admitted yet."""
        new = [name for name in devices if name not in self.coordinator.state.devices.admitted]
        for name in new[:-1]:
            self.coordinator.inbox.submit(AdmitDevice(device=name))
        for name in new[-1:]:
            self.command(AdmitDevice(device=name))

    def switch_on(self, name: DeviceId, delivered: Sequence[Delivery]) -> bool:
        """Give a device its data and switch it on; return whether it was off."""
        device = self.device(name)
        device.jobs.delivered = delivered
        if device.on:
            return False
        device.start()
        return True

    @property
    def clock(self) -> VirtualClock:
        """The fleet's clock."""
        return self.world.loop.clock

    @property
    def stopwatch(self) -> Stopwatch:
        """Where this machine's time goes."""
        return self.world.stopwatch

    def traffic(self) -> dict[DeviceId, Counts]:
        """Return what each device has sent and received."""
        return {name: device.traffic() for name, device in self.devices.items()}

    def computing(self) -> dict[DeviceId, float]:
        """Return the seconds that each device has computed."""
        return {name: device.jobs.compute_seconds for name, device in self.devices.items()}

    def proxy_traffic(self) -> ProxyTraffic | None:
        """Return what the proxy has sent and received; None without one."""
        return None if self.proxy is None else self.proxy.traffic()

    def close(self) -> None:
        """Close all files."""
        for device in self.devices.values():
            device.close()
        if self.proxy is not None:
            self.proxy.close()
        self.coordinator.close()
        self._context.memories.close()

    def _made_context(self, era: int) -> TimedContext:
        """Return what devices stand on."""
        scenario = self._prepared.scenario
        memories = MemoryFile(self._folder / "agents" / "memories.db")
        files = FleetFiles(self._folder / "files", self.coordinator.blobs.get, memories.held())
        return TimedContext(
            world=self.world,
            coordinator=self.coordinator,
            files=files,
            resources=self._resources(files),
            decides_by=rules_of(scenario),
            rules=_asked_rules(scenario),
            capabilities=find_capabilities(),
            settings=settings_of(scenario),
            agents=self._folder / "agents",
            seed=self._prepared.plan.seed,
            era=era,
            rollout=self._rollout_gear(),
            memories=memories,
            to_proxy=self._to_proxy,
        )

    def _to_proxy(self, device: DeviceId, body: PrototypeGradients, payload: bytes) -> None:
        assert self.proxy is not None, "nobody gives gradients without"
        self.world.carry(("from", device), partial(self.proxy.give, device, body, payload))

    def _resources(self, files: BlobFolder) -> Resources:
        """Return what the jobs of all devices share; `files` are those of models."""
        prepared, coordinator, spec = self._prepared, self.coordinator, self._prepared.preprocessing
        plan = prepared.plan
        features = LineageFeatures(
            prepared.features, coordinator.blobs, lambda: coordinator.state.lineages.current
        )
        return Resources(
            lister=Lister(prepared.split.train),
            features=features,
            models=SharedModels(files),
            stopwatch=self.stopwatch,
            pictures=None
            if isinstance(spec, TextPreprocessing)
            else sized_samples(prepared.split.train, spec),
            trainers=TrainerPool(
                self.world.loop,
                self.stopwatch,
                TrainerPoolSettings.of(prepared.scenario.engine),
                draw_slowness(prepared.scenario.devices, plan.devices, plan.seed),
            ),
            minute=lambda: self.clock.time_ns() // 60_000_000_000 % (24 * 60),
        )

    def _rollout_gear(self) -> RolloutGear | None:
        """Draw who is what in the rollout at the end; None without one."""
        prepared, settings = self._prepared, self._prepared.scenario.rollout
        if settings is None:
            return None
        fleet = RolloutFleet.drawn(settings, prepared.plan)
        pictures = HeldOut(fleet, prepared.split.test, self._folder / "files" / "held-out")
        return RolloutGear(fleet, pictures)


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
