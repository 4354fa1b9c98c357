"""The fleet of a run in one process: a coordinator, and the devices of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.device_agent.capabilities import find_capabilities
from fleetledger.device_agent.store.blobs import BlobFolder
from fleetledger.device_agent.store.store import make_blank_store
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.inprocess.home import (
    FLEET,
    last_moment,
    make_home,
    rules_of,
    settings_of,
)
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.rounds import first_lineage
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.rollouts.held_out import HeldOut, RolloutFleet
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.coordinator import VirtualCoordinator
from fleetledger.simulator.virtual.device import RolloutGear, VirtualContext, VirtualDevice
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


class Fleet:
    """Everybody of one run, in `folder`; what a former process left there is gone on with."""

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        self._prepared = prepared
        self._folder = folder
        home = folder / "coordinator"
        make_home(home, prepared.scenario, prepared.plan.seed)
        era, time_ns = last_moment(home)
        engine, seed = prepared.scenario.engine, prepared.plan.seed
        self.world = VirtualWorld.made(seed, engine.latency_ms / 1000, time_ns=time_ns)
        self.coordinator = VirtualCoordinator(
            self.world, home, seeded_boot(seed, "coordinator", era)
        )
        self.devices: dict[DeviceId, VirtualDevice] = {}
        self._context = self._made_context(seed, era)
        self.coordinator.start()
        if self.coordinator.state.lineages.current is None:
            self.command(first_lineage(home, prepared))
        self.proxy = self._made_proxy(seed, era)

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

    def device(self, name: DeviceId) -> VirtualDevice:
        """Return a device of the plan, whether it is on or off."""
        if name not in self.devices:
            self.devices[name] = VirtualDevice(self._context, name)
        return self.devices[name]

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

    def _made_proxy(self, seed: int, era: int) -> VirtualProxy | None:
        """Start a proxy where the network is of a method that has one."""
        if self.coordinator.state.lineages.with_proxy is None:
            return None
        boot = seeded_boot(seed, "proxy", era)
        settings = ProxyHomeSettings(fleet=FLEET, device=self._prepared.scenario.engine.device)
        proxy = VirtualProxy(self.world, self._folder / "proxy", settings, boot)
        proxy.start()
        return proxy

    def _made_context(self, seed: int, era: int) -> VirtualContext:
        scenario = self._prepared.scenario
        cache = BlobCache(
            self._folder / "files",
            FleetTopics(FLEET),
            scenario.engine.latency_ms / 1000,
            self.coordinator.source,
        )
        files = self.files = SharedFiles(cache, self.world.loop)
        features = LineageFeatures(
            self._prepared.features,
            self.coordinator.blobs,
            lambda: self.coordinator.state.lineages.current,
        )
        models = SharedModels(BlobFolder(files.folder, durable=False))
        return VirtualContext(
            world=self.world,
            topics=FleetTopics(FLEET),
            swapper=Swapper(scenario.engine.agents_in_memory),
            files=files,
            resources=Resources(
                lister=Lister(self._prepared.split.train),
                features=features,
                models=models,
                stopwatch=self.world.stopwatch,
                pictures=_pictures(self._prepared),
                trainers=TrainerPool(
                    self.world.loop, self.world.stopwatch, TrainerPoolSettings.of(scenario.engine)
                ),
                minute=lambda: self.clock.time_ns() // 60_000_000_000 % (24 * 60),
            ),
            rules=rules_of(scenario),
            capabilities=find_capabilities(),
            seed=seed,
            blank_store=make_blank_store(self._folder / "files" / "agent.db"),
            agents=self._folder / "agents",
            settings=settings_of(scenario),
            era=era,
            rollout=self._made_gear(),
        )

    def _made_gear(self) -> RolloutGear | None:
        """Draw who is what in the rollout at the end; None without one."""
        prepared, settings = self._prepared, self._prepared.scenario.rollout
        if settings is None:
            return None
        fleet = RolloutFleet.drawn(settings, prepared.plan)
        pictures = HeldOut(fleet, prepared.split.test, self._folder / "files" / "held-out")
        return RolloutGear(fleet, pictures)


def _pictures(prepared: Prepared) -> SizedPictures | SizedScenes | None:
    spec = prepared.preprocessing
    return None if spec.mode == "text" else sized_samples(prepared.split.train, spec)
