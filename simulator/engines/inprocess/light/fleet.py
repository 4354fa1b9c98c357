"""The fleet of a run with light agents: a coordinator, and of the devices only what they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fleetledger.coordinator.core.inputs import CoordinatorConnected
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.device_agent.core.policy import publishes_gradients, withheld
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.learning.numerics.blas import numpy_on_one_thread
from fleetledger.methods.registry import training_device
from fleetledger.schemas.presence import Birth, Death
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.inprocess.home import (
    FLEET,
    last_moment,
    make_home,
    rules_of,
    settings_of,
)
from fleetledger.simulator.engines.inprocess.light.answer_hasher import AnswerHasher
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.context import (
    Compare,
    LightContext,
    TrainingContext,
    device_message,
)
from fleetledger.simulator.engines.inprocess.light.coordinator import LightCoordinator
from fleetledger.simulator.engines.inprocess.light.counting import Counting, CountingSetup, PastScan
from fleetledger.simulator.engines.inprocess.light.holdings import Holdings
from fleetledger.simulator.engines.inprocess.light.memories import Memories
from fleetledger.simulator.engines.inprocess.light.proxy import LightProxy
from fleetledger.simulator.engines.inprocess.light.round import LightRound
from fleetledger.simulator.engines.inprocess.light.traffic import Traffic
from fleetledger.simulator.engines.inprocess.light.workers.lots import LotDealer, WorkerPool
from fleetledger.simulator.engines.inprocess.light.workers.processes import ProcessPool
from fleetledger.simulator.engines.inprocess.light.workers.threads import (
    ThreadPool,
    threads_run_side_by_side,
)
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.network_inputs import inputs_of
from fleetledger.simulator.engines.presence import delivered
from fleetledger.simulator.engines.rounds import first_lineage
from fleetledger.simulator.engines.stages import ledger_stages
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.scenario.sections import EngineSettings
from fleetledger.simulator.scenario.trainer import trainer_of
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.parts import Delivery
from fleetledger.simulator.virtual.proxy import ProxyTraffic
from fleetledger.simulator.virtual.seeds import seeded_boot
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.training import TrainerPoolSettings
from fleetledger.transport.meter import Counts

OnlineIn = Callable[[StagePlan], tuple[DeviceId, ...]]


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
            self.coordinator.command(first_lineage(home, prepared))
        self._context = LightContext(
            coordinator=self.coordinator,
            clock=self.clock,
            stopwatch=self.stopwatch,
            traffic=Traffic(FLEET),
            progress=lambda done: watch.agents(done, len(self._online)),
        )
        self._capabilities = find_capabilities()
        proxy = ProxyHomeSettings(fleet=FLEET, device=scenario.engine.device)
        self._proxy = self._made_proxy(folder / "proxy", proxy)
        self._training = self._made_training(prepared, folder)
        self._counting = self._made_counting(prepared)
        self._delivered: dict[DeviceId, tuple[Delivery, ...]] = {}
        self._online: tuple[DeviceId, ...] = ()
        self._runs: dict[DeviceId, int] = {}

    def _made_training(self, prepared: Prepared, folder: Path) -> TrainingContext | None:
        """Return what rounds need; None where no network is trained."""
        scenario, trainer = prepared.scenario, trainer_of(prepared.scenario)
        if trainer is None:
            return None
        sight, engine = inputs_of(prepared), scenario.engine
        training_device(trainer.method)  # imported before anything is measured
        trainers = TrainerPoolSettings.of(engine)
        rules, method = rules_of(scenario), trainer.method
        publishes = publishes_gradients(rules, method)
        store = engine.store or (folder / "agents").resolve().as_uri()
        poisoned = scenario.devices.poisoned
        place = CohortResources(trainers, sight.pictures(), store, publishes, poisoned)
        # Workers have accelerators of their own, and the samples on these.
        device = "cpu" if engine.workers or engine.kind == "ray" else trainers.for_torch().device
        exemplars = scenario.devices.exemplars
        holdings = Holdings(prepared.split.train, prepared.plan, sight, exemplars, device)
        pool = _pool(place, engine)
        return TrainingContext(
            holdings=holdings,
            memories=Memories(place.store, folder / "memories.jsonl", self._is_done),
            place=place,
            hasher=AnswerHasher(),
            dealer=None if pool is None else LotDealer(place, pool, engine, holdings.shared),
            proxy=self._proxy,
            withheld=withheld(rules, method),
        )

    def _made_proxy(self, home: Path, settings: ProxyHomeSettings) -> LightProxy | None:
        """Start a proxy where the network is of a method that has one."""
        if self.coordinator.state.lineages.with_proxy is None:
            return None
        boot = seeded_boot(self._seed, "proxy", self._era)
        proxy = LightProxy(self._context, home, settings, boot)
        self.coordinator.process([CoordinatorConnected()])  # its order is told again
        return proxy

    def _made_counting(self, prepared: Prepared) -> Counting:
        coordinator = self.coordinator
        features = LineageFeatures(
            prepared.features, coordinator.blobs, lambda: coordinator.state.lineages.current
        )
        scenario = prepared.scenario
        return Counting(
            self._context,
            CountingSetup(
                rules=rules_of(scenario),
                form=settings_of(scenario).contribution_form,
                capabilities=self._capabilities,
                seed=self._seed,
                train=prepared.split.train,
                features=features,
            ),
        )

    def compare_with(self, compare: Compare) -> None:
        """Give somebody the models in the answers to every round, where networks are trained."""
        if self._training is not None:
            self._training = replace(self._training, compare=compare)

    def wait_for_workers(self) -> None:
        """Wait until all workers are there; else whoever comes later joins in."""
        if self._training is not None and self._training.dealer is not None:
            self._training.dealer.wait()

    def arrive(self, stage: StagePlan, online_in: OnlineIn) -> None:
        """Switch on who is there, with all data that reached them, and off who is not.

        `online_in` tells who is there in a stage. Who comes gives what it held back first.
        """
        online = online_in(stage)
        there, before = set(online), set(self._online)
        gone = [name for name in self._online if name not in there]
        goodbye = Death(reason="the agent was stopped")
        self.coordinator.process([device_message(self._context, name, goodbye) for name in gone])
        self._admit(tuple(stage.devices))
        came = [name for name in online if name not in before]
        self._begin(came)
        self._online = online
        numbers = ledger_stages(self.coordinator.state, self._plan, stage)
        self._catch_up(stage, came, online_in)
        self._bring(stage.number if numbers else stage.number - 1, came)
        self._counting.carry_out(came, self._delivered.__getitem__)
        self._bring(stage.number, online)

    def count(self) -> bool:
        """Have devices count that are asked to; return whether there were any."""
        asked = self._counting.asked(self._online)
        self._counting.carry_out(asked, self._delivered.__getitem__)
        return bool(asked)

    def carry_out(self, current: Round, meanwhile: Callable[[], None]) -> None:
        """Have the cohort of the open round trained; `meanwhile` is done beside workers."""
        with numpy_on_one_thread():
            LightRound(self._context, self._rounds, current).carry_out(meanwhile)

    def average_again(self, current: Round) -> None:
        """Make ready for a round that was closed, and whose answers a former process summed."""
        closed = LightRound(self._context, self._rounds, current)
        with numpy_on_one_thread():
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

    def proxy_traffic(self) -> ProxyTraffic | None:
        """Return what the proxy has sent and received; None without one."""
        return None if self._proxy is None else self._proxy.traffic()

    def score(self) -> bool:
        """Let the proxy do what it is asked; return whether it said anything."""
        return self._proxy is not None and self._proxy.step()

    def close(self) -> None:
        """Close all files."""
        if self._training is not None:
            self._training.close()
        if self._proxy is not None:
            self._proxy.close()
        self.coordinator.close()

    @property
    def _rounds(self) -> TrainingContext:
        assert self._training is not None, "rounds are of networks that are trained"
        return self._training

    def _bring(self, stage: int, devices: Sequence[DeviceId]) -> None:
        """Let everything lie on devices that reaches them up to a stage."""
        brought = {name: delivered(self._plan, name, stage) for name in devices}
        self._delivered |= brought
        if self._training is not None:
            self._training.holdings.bring(brought)

    def _catch_up(self, stage: StagePlan, devices: Sequence[DeviceId], online_in: OnlineIn) -> None:
        """Let devices know what they counted before this process began."""
        looks: dict[DeviceId, list[PastScan]] = {name: [] for name in devices}
        before: set[DeviceId] = set()
        last = 0
        for led in self._plan.stages[: stage.number]:
            numbers = ledger_stages(self.coordinator.state, self._plan, led)
            there = set(online_in(led)).intersection(devices)
            for name in there - before if last and numbers else ():  # gave what it held back first
                looks[name].append(PastScan(last, delivered(self._plan, name, led.number - 1)))
            if led.number < stage.number:
                last, before = numbers[0], there
                for name in there:
                    looks[name].append(PastScan(last, delivered(self._plan, name, led.number)))
        for name in devices:
            self._counting.restore(name, looks[name])

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
        if self._training is not None:
            self._training.told.difference_update(devices)
        for name in devices:
            runs = self._runs[name] = self._runs.get(name, 0) + 1
            boot = seeded_boot(self._seed, name, self._era, runs)
            installation = seeded_boot(self._seed, name, "installation")
            birth = Birth(installation=installation, capabilities=self._capabilities)
            births.append(device_message(self._context, name, birth, boot))
        self.coordinator.process(births)


def _pool(place: CohortResources, engine: EngineSettings) -> WorkerPool | None:
    """Return where a scenario's workers are, if it has any; raise `EngineError`."""
    if engine.kind == "ray":
        from fleetledger.simulator.engines.inprocess.light.workers.ray_cluster import RayPool  # noqa: PLC0415 - an extra

        return RayPool(place, engine)
    if not engine.workers:
        return None
    return ThreadPool(place) if threads_run_side_by_side() else ProcessPool(place)
