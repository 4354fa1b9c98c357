"""The fleet of a run in one process: a coordinator, and the devices of the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.home.store.store import make_blank_store
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.inprocess.home import (
    FLEET,
    last_moment,
    make_home,
    rules_of,
    settings_of,
)
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import TimedCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_device import TimedDevice
from fleetledger.simulator.engines.inprocess.light.timed_proxy import TimedProxy
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.rounds import first_lineage
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.rollouts.held_out import HeldOut, RolloutFleet, RolloutGear
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.coordinator import VirtualCoordinator
from fleetledger.simulator.virtual.device import VirtualContext, VirtualDevice
from fleetledger.simulator.virtual.device_jobs import Resources
from fleetledger.simulator.virtual.files import BlobCache, SharedFiles
from fleetledger.simulator.virtual.models import SharedModels
from fleetledger.simulator.virtual.parts import Delivery, Lister
from fleetledger.simulator.virtual.pictures import SizedPictures
from fleetledger.simulator.virtual.proxy import ProxyTraffic, VirtualProxy
from fleetledger.simulator.virtual.scenes import SizedScenes, sized_samples
from fleetledger.simulator.virtual.seeds import seeded_boot
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.swapper import Swapper
from fleetledger.simulator.virtual.training import TrainerPool, TrainerPoolSettings
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.meter import Counts

_COMMAND_SECONDS = 60.0


class Fleet(ABC):
    """Fleet of one run in `folder`. Resumes a run that was interrupted."""

    world: TimedWorld | VirtualWorld
    coordinator: TimedCoordinator | VirtualCoordinator
    devices: dict[DeviceId, TimedDevice] | dict[DeviceId, VirtualDevice]
    proxy: TimedProxy | VirtualProxy | None

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        self._prepared = prepared
        self._folder = folder
        self._seed = prepared.plan.seed
        home = folder / "coordinator"
        make_home(home, prepared.scenario, self._seed)
        self._era, time_ns = last_moment(home)
        self.devices = {}
        self._populate(home, seeded_boot(self._seed, "coordinator", self._era), time_ns)
        self.coordinator.start()
        if self.coordinator.state.lineages.current is None:
            self.command(first_lineage(home, prepared))
        self.proxy = None
        if self.coordinator.state.lineages.with_proxy is not None:
            settings = ProxyHomeSettings(fleet=FLEET, device=prepared.scenario.engine.device)
            boot = seeded_boot(self._seed, "proxy", self._era)
            self.proxy = self._made_proxy(folder / "proxy", settings, boot)

    @abstractmethod
    def _populate(self, home: Path, boot: BootId, time_ns: int) -> None:
        """Make the world, its coordinator, and what devices stand on."""

    @abstractmethod
    def _made_proxy(
        self, home: Path, settings: ProxyHomeSettings, boot: BootId
    ) -> TimedProxy | VirtualProxy:
        """Return a proxy that has started, for a network of a method that has one."""

    @abstractmethod
    def device(self, name: DeviceId) -> TimedDevice | VirtualDevice:
        """Return a device of the plan, whether it is on or off."""

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

    def _resources(self, files: BlobFolder) -> Resources:
        """Return what the jobs of all devices share; `files` are those of models."""
        prepared, coordinator = self._prepared, self.coordinator
        features = LineageFeatures(
            prepared.features, coordinator.blobs, lambda: coordinator.state.lineages.current
        )
        return Resources(
            lister=Lister(prepared.split.train),
            features=features,
            models=SharedModels(files),
            stopwatch=self.stopwatch,
            pictures=_pictures(prepared),
            trainers=TrainerPool(
                self.world.loop, self.stopwatch, TrainerPoolSettings.of(prepared.scenario.engine)
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


class WholeFleet(Fleet):
    """Fleet of whole agents on a virtual network."""

    world: VirtualWorld
    coordinator: VirtualCoordinator
    devices: dict[DeviceId, VirtualDevice]
    proxy: VirtualProxy | None

    def _populate(self, home: Path, boot: BootId, time_ns: int) -> None:
        scenario = self._prepared.scenario
        latency = scenario.engine.latency_ms / 1000
        self.world = VirtualWorld.made(self._seed, latency, time_ns=time_ns)
        self.coordinator = VirtualCoordinator(self.world, home, boot)
        cache = BlobCache(
            self._folder / "files", FleetTopics(FLEET), latency, self.coordinator.source
        )
        files = self.files = SharedFiles(cache, self.world.loop)
        self._context = VirtualContext(
            world=self.world,
            topics=FleetTopics(FLEET),
            swapper=Swapper(scenario.engine.agents_in_memory),
            files=files,
            resources=self._resources(BlobFolder(files.folder, durable=False)),
            rules=rules_of(scenario),
            capabilities=find_capabilities(),
            seed=self._seed,
            blank_store=make_blank_store(self._folder / "files" / "agent.db"),
            agents=self._folder / "agents",
            settings=settings_of(scenario),
            era=self._era,
            rollout=self._rollout_gear(),
        )

    def device(self, name: DeviceId) -> VirtualDevice:
        """Return a device of the plan, whether it is on or off."""
        if name not in self.devices:
            self.devices[name] = VirtualDevice(self._context, name)
        return self.devices[name]

    def _made_proxy(self, home: Path, settings: ProxyHomeSettings, boot: BootId) -> VirtualProxy:
        proxy = VirtualProxy(self.world, home, settings, boot)
        proxy.start()
        return proxy


def _pictures(prepared: Prepared) -> SizedPictures | SizedScenes | None:
    spec = prepared.preprocessing
    return None if spec.mode == "text" else sized_samples(prepared.split.train, spec)
