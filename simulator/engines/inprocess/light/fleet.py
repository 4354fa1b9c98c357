"""The fleet of a run with light agents: a coordinator, and of the devices only what they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from coordinator.topics.devices.commands import AdmitDevice
from coordinator.topics.lineages.commands import ImportNetwork
from coordinator.topics.rounds.state import Round
from device_agent.capabilities import find_capabilities
from methods.registry import training_device
from schemas.presence import Birth, Death
from schemas.values import DeviceId
from simulator.engines.inprocess.home import FLEET, last_moment, make_home
from simulator.engines.inprocess.light.cohort import CohortResources
from simulator.engines.inprocess.light.context import LightContext
from simulator.engines.inprocess.light.coordinator import LightCoordinator
from simulator.engines.inprocess.light.holdings import Holdings
from simulator.engines.inprocess.light.memories import Memories
from simulator.engines.inprocess.light.packing import Packer
from simulator.engines.inprocess.light.round import LightRound, device_message
from simulator.engines.inprocess.light.traffic import Traffic
from simulator.engines.inprocess.light.workers import WorkerPool
from simulator.engines.interface import Prepared, Watch
from simulator.engines.network_inputs import inputs_of
from simulator.engines.presence import delivered
from simulator.engines.rounds import network_of
from simulator.plan.fleet_plan import StagePlan
from simulator.scenario.trainer import trainer_of
from simulator.virtual.clock import VirtualClock
from simulator.virtual.seeds import seeded_boot
from simulator.virtual.stopwatch import Stopwatch
from simulator.virtual.training import TrainerPoolSettings
from transport.meter import Counts


class LightFleet:
    """Everybody of one run, in `folder`; what a former process left there is gone on with."""

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        scenario, home = prepared.scenario, folder / "coordinator"
        self._plan, self._seed = prepared.plan, prepared.plan.seed
        make_home(home, scenario, self._seed)
        self._era, time_ns = last_moment(home)
        self.clock, self.stopwatch = VirtualClock(time_ns), Stopwatch()
        boot = seeded_boot(self._seed, "coordinator", self._era)
        self.coordinator = LightCoordinator(home, self.clock, boot, self.stopwatch)
        if self.coordinator.state.lineages.current is None:
            network = network_of(home, prepared)
            self.coordinator.command(ImportNetwork(network=network))
        trainer = trainer_of(scenario)
        assert trainer is not None, "a scenario with light agents trains"
        sight, engine = inputs_of(prepared), scenario.engine
        training_device(trainer.method)  # imported before anything is measured
        place = CohortResources(TrainerPoolSettings.of(engine), sight.pictures(), folder / "agents")
        self._context = LightContext(
            coordinator=self.coordinator,
            clock=self.clock,
            stopwatch=self.stopwatch,
            holdings=Holdings(prepared.split.train, sight, scenario.devices.exemplars),
            memories=Memories(place.memories, self._is_done),
            place=place,
            packer=Packer(),
            pool=WorkerPool(place, engine.workers) if engine.workers else None,
            traffic=Traffic(FLEET),
            progress=lambda done: watch.agents(done, len(self._online)),
        )
        self._capabilities = find_capabilities()
        self._online: tuple[DeviceId, ...] = ()
        self._runs: dict[DeviceId, int] = {}

    def wait_for_workers(self) -> None:
        """Wait until all workers are there; else whoever comes later joins in."""
        if self._context.pool is not None:
            self._context.pool.wait()

    def arrive(self, stage: StagePlan, online: tuple[DeviceId, ...]) -> None:
        """Switch on who is there, with all data that reached them, and off who is not."""
        there, before = set(online), set(self._online)
        gone = [name for name in self._online if name not in there]
        goodbye = Death(reason="the agent was stopped")
        self.coordinator.take([device_message(self._context, name, goodbye) for name in gone])
        self._admit(tuple(stage.devices))
        self._begin([name for name in online if name not in before])
        self._online = online
        self._context.holdings.bring(
            {name: delivered(self._plan, name, stage.number) for name in online}
        )

    def carry_out(self, current: Round, meanwhile: Callable[[], None]) -> None:
        """Have the cohort of the open round trained; `meanwhile` is done beside workers."""
        LightRound(self._context, current).carry_out(meanwhile)

    def average_again(self, current: Round) -> None:
        """Make ready for a round that was closed, and whose answers a former process summed."""
        closed = LightRound(self._context, current)
        closed.sum_again(tuple(current.answers))
        self.coordinator.average = closed.average

    def install(self) -> None:
        """Count what the devices that are there fetch of the newest model."""
        newest = self.coordinator.state.models.newest
        assert newest is not None
        assert newest.exported is not None
        files = frozenset((newest.exported.manifest, *newest.exported.files))
        for name in self._online:
            self._context.traffic.fetched(name, files)

    def traffic(self) -> dict[DeviceId, Counts]:
        """Return what each device would have sent and received."""
        return {
            name: self._context.traffic.of(name) for name in self.coordinator.state.devices.admitted
        }

    def computing(self) -> dict[DeviceId, float]:
        """Return the seconds that each device has computed."""
        return dict(self._context.computing)

    def proxy_traffic(self) -> None:
        """Light agents have no proxy."""

    def close(self) -> None:
        """Close all files."""
        self._context.packer.close()
        if self._context.pool is not None:
            self._context.pool.close()
        self.coordinator.close()

    def _is_done(self, number: int) -> bool:
        """Whether nothing more comes of a round."""
        state = self.coordinator.state
        current = state.rounds.by_number.get(number)
        return current.done if current is not None else number <= state.rounds.last_number

    def _admit(self, devices: Sequence[DeviceId]) -> None:
        new = [name for name in devices if name not in self.coordinator.state.devices.admitted]
        self.coordinator.commands([AdmitDevice(device=name) for name in new])

    def _begin(self, devices: Sequence[DeviceId]) -> None:
        """Have devices tell that they are there, as their agents would."""
        births = []
        for name in devices:
            runs = self._runs[name] = self._runs.get(name, 0) + 1
            boot = seeded_boot(self._seed, name, self._era, runs)
            installation = seeded_boot(self._seed, name, "installation")
            birth = Birth(installation=installation, capabilities=self._capabilities)
            births.append(device_message(self._context, name, birth, boot))
        self.coordinator.take(births)
