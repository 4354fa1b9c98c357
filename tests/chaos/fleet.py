"""A fleet that goes through its stages while things go wrong."""

from __future__ import annotations

import functools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.proxy.store import ProxyStore
from fleetledger.coordinator.topics.contributions.commands import SettleEarlier
from fleetledger.coordinator.topics.models.commands import ImportModel
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.coordinator.topics.rollouts.commands import PlanRollout
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models import host
from fleetledger.device_agent.program import device_jobs
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.rollouts.candidate_import import version_of
from fleetledger.simulator.scenario.trainer import trainer_of
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.transport.memory import InMemoryConnection
from tests.chaos.agent import CrashableAgent
from tests.chaos.coordinator import CrashableCoordinator
from tests.chaos.crashable import Crashable, FaultyWorld
from tests.chaos.disk import Disk
from tests.chaos.effects import CrashPoints
from tests.chaos.errors import ChaosError
from tests.chaos.faults import Troubles, dice
from tests.chaos.faulty_network import FaultyNetwork
from tests.chaos.material import FLEET, ChaosMaterial
from tests.chaos.outcome import Places
from tests.chaos.proxy import CrashableProxy

EFFECTS = (
    (AgentStore, "commit", "commit"),
    (AgentStore, "begin_run", "commit"),
    (Ledger, "append", "commit"),
    (ProxyStore, "commit", "commit"),
    (OperatorInbox, "answer", "commit"),
    (DigestCache, "update", "commit"),
    (InMemoryConnection, "publish", "publish"),
    (InMemoryConnection, "acknowledge", "acknowledge"),
)
"""Methods that are crash points before and after; files and work are others."""

_PATIENCE_SECONDS = 300.0
"""After the last trouble everything must have come to its end, and longer by what follows."""
_DEVICE_SECONDS = 3.0
"""For each device: the coordinator looks at one payload after the other, and takes its time."""
_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 40.0
"""Two heartbeats and more: by then everybody knows what came last."""


class ChaosFleet:
    """A coordinator and agents in `folder`, with the troubles of one run."""

    def __init__(self, material: ChaosMaterial, folder: Path, troubles: Troubles) -> None:
        folder = folder.resolve()
        self.material = material
        self.tally: Counter[str] = Counter()
        self.slowest = 0.0
        """Most seconds that the fleet took after a trouble until everything had come to its end."""
        self.loop = Loop(VirtualClock())
        self._dropped: set[tuple[DeviceId, BootId | None]] = set()
        """Devices, by their installation, of which the operator said so."""
        self._troubles = troubles
        network = FaultyNetwork(self.loop, troubles.network_faults, troubles.seed, self.tally)
        self.points = CrashPoints(EFFECTS)
        self._shadows = folder / "shadows"
        world = FaultyWorld(self.loop, network, self.points, troubles, self._shadows, self.tally)
        self._network = network
        home = folder / "coordinator"
        material.copy_coordinator(home)
        self.coordinator = CrashableCoordinator(world, home)
        self.agents = tuple(
            CrashableAgent(
                world,
                material.make_agent(device, folder / "agents" / device),
                replaceable=material.any_division and material.coordinator_key is None,
            )
            for device in material.plan.devices
        )
        self.places = Places(home, {agent.device: agent.home.state_folder for agent in self.agents})
        self.programs: tuple[Crashable, ...] = (self.coordinator, *self.agents)
        if material.has_proxy:
            self.programs += (CrashableProxy(world, folder / "proxy", FLEET),)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all programs inside, and end their simulation afterwards."""
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._shadows)
            stack.enter_context(self.points)
            # Returning memory to the system takes longer than all other work of a small fleet.
            for module in (device_jobs, host):
                stack.enter_context(patch.object(module, "release_memory", lambda: None))
            disk = stack.enter_context(Disk([program.drive for program in self.programs]))
            stack.callback(self._stop)
            for program in self.programs:
                program.disk = disk
                self.loop.at(0.0, program.start)
            self._plan_troubles()
            yield

    def learn(self, stage: StagePlan) -> None:
        """Let the fleet learn a stage; raise `ChaosError` if it does not come to its end.

        An operator in a hurry waits only for the stage to be open.
        """
        for agent in self.agents:
            self.material.deliver(stage, agent.home)
        # A round asks whoever was ever seen, so everybody must have been.
        self._wait(self._known, "the first birth of every device")
        self.coordinator.command(OpenStage(class_names=self.material.plan.names(stage.classes)))
        hurry = self._troubles.hurry if self.material.any_division else None
        if hurry is None:
            self._wait(lambda: self._settled(stage.number), f"stage {stage.number}")
            return
        after = self.loop.clock.now + hurry
        self._wait(
            lambda: self.loop.clock.now >= after and self._opened(stage.number),
            f"the opening of stage {stage.number}",
            after,
        )

    def roll_out(self) -> None:
        """Let a candidate go out; raise `ChaosError` if it does not come to its end.

        The end is one at which devices run what they are to run, also where it was stopped.
        """
        settings = self.material.scenario.rollout
        assert settings is not None, "the scenario ends with a rollout"
        number = len(self.material.plan.stages)
        self._wait(lambda: self._settled(number), "the last stage")
        state = self.coordinator.state
        assert state is not None, "it has settled"
        files = self.material.candidates.stored(self.coordinator.home, state)
        self.coordinator.command(ImportModel(model=files))
        found: list[int] = []
        self._wait(lambda: self._is_packed(files, found), "the candidate's manifest")
        self.coordinator.command(PlanRollout(version=found[-1], plan=settings.plan, start=True))
        self._wait(self._rolled_out, "the rollout")

    @property
    def receipts(self) -> list[tuple[DeviceId, Receipt]]:
        """Every receipt that the coordinator sent, arrived or not."""
        topics = FleetTopics(FLEET)
        return [
            (topics.parse(message.topic).device, decode(message.payload).read(Receipt))
            for message in self._network.receipts
        ]

    def calm_down(self) -> None:
        """Let what is still under way arrive, and wait until everything has settled again."""
        number = len(self.material.plan.stages)
        self._wait(lambda: self._network.under_way == 0, "what is under way")
        quiet = self.loop.clock.now + _QUIET_SECONDS
        self._wait(lambda: self.loop.clock.now >= quiet, "the quiet", quiet)
        self._wait(lambda: self._settled(number), "the end")

    def _wait(self, done: Callable[[], bool], what: str, due: float = 0.0) -> None:
        """Let time pass until `done`, which is asked about once a second of the fleet's clock.

        It has its time from now, from when it is `due`, or from the last trouble.
        """
        clock = self.loop.clock
        began = max(clock.now, due)
        patience = _PATIENCE_SECONDS + _DEVICE_SECONDS * len(self.agents)
        while True:
            look = clock.now + _LOOK_SECONDS
            while self.loop.next_time() <= look:
                self.loop.step()
            self._drop_earlier()
            calm = max(began, self._network.calm_since)
            if done():
                self.slowest = max(self.slowest, clock.now - calm)
                return
            if self.loop.next_time() > calm + patience:
                raise ChaosError(f"{what} does not come to its end: {self._state_of_affairs()}")
            self.loop.step()

    def _drop_earlier(self) -> None:
        """Say of devices installed anew, as their operator, that they give the same pictures."""
        state = self.coordinator.state
        if state is None:
            return
        for agent in self.agents:
            device = agent.device
            known = state.devices.admitted.get(device)
            installation = known.installation if known is not None else None
            if agent.installations == 1 or (device, installation) in self._dropped:
                continue
            if state.contributions.of(device).earlier(installation):
                self._dropped.add((device, installation))
                self.coordinator.command(SettleEarlier(device=device, kept=False))

    def _known(self) -> bool:
        if trainer_of(self.material.scenario) is None:
            return True
        state = self.coordinator.state
        return state is not None and all(
            state.devices.admitted[agent.device].capabilities is not None for agent in self.agents
        )

    def _opened(self, number: int) -> bool:
        state = self.coordinator.state
        return state is not None and number in state.stages.by_number

    def _is_packed(self, files: ImportedFiles, found: list[int]) -> bool:
        """Whether an imported model can go out; then its version is in `found`."""
        state = self.coordinator.state
        version = version_of(state, files) if state is not None else None
        found += [] if version is None else [version]
        return version is not None

    def _rolled_out(self) -> bool:
        """Whether there was a rollout, and nothing goes out any more."""
        state = self.coordinator.state
        return (
            state is not None
            and bool(state.rollouts.by_number)
            and _at_rest(state.rollouts.active)
            and self._settled(len(self.material.plan.stages))
        )

    def _settled(self, planned: int) -> bool:
        """Whether everything of a stage, or of one opened after it, is learned everywhere."""
        state = self.coordinator.state
        number = state.stages.current if state is not None else None
        if state is None or number is None or number < planned or not self.coordinator.idle:
            return False
        model, desired = state.models.newest, state.models.desired
        return (
            state.stages.by_number[number].closed_index is not None
            and model is not None
            and (
                set(state.stages.by_number[number].class_names) <= set(model.solved.class_names)
                if state.lineages.in_rounds
                else state.contributions.unchanged_since(model.solved.ledger_size)
            )
            and desired is not None
            and (desired.version == model.solved.version or bool(state.rollouts.by_number))
            and all(self._runs_what_it_should(agent, state, number) for agent in self.agents)
        )

    def _runs_what_it_should(self, agent: CrashableAgent, state: State, stage: int) -> bool:
        desired = state.models.desired_for(agent.device)
        if desired is not None and desired.group is not None and desired.group.mode == "shadow":
            desired = state.models.desired  # it compares, and runs what everybody does
        return desired is not None and agent.settled(stage, desired.version)

    def _plan_troubles(self) -> None:
        chance = dice(f"{self._troubles.seed}/cuts")
        for when, name in self._troubles.cuts:
            for role in ("control", "data"):
                away = chance.choice((0.0, 1.0, 30.0, 120.0))
                cut = functools.partial(self._network.cut, f"{name}.{role}", away)
                self.loop.at(when, cut)
        for when in self._troubles.broker_restarts:
            self.loop.at(when, self._restart_broker)
        named = {program.name: program for program in self.programs}
        for when, name, seconds in self._troubles.leaps:
            self.loop.at(when, functools.partial(named[name].leap, seconds))

    def _restart_broker(self) -> None:
        self.tally["broker restarts"] += 1
        self._network.disturbed_until(self.loop.clock.now)
        self._network.restart()

    def _state_of_affairs(self) -> str:
        state = self.coordinator.state
        if state is None:
            return "the coordinator is off"
        model = state.models.newest
        lines = [
            f"stage {state.stages.current}, {len(state.contributions.counted)} parts in the sum, "
            f"model {model.solved.version if model else None}, desired {state.models.desired}, "
            f"{'idle' if self.coordinator.idle else 'making a model'}"
        ]
        return "; ".join(lines + [agent.waits_for() for agent in self.agents])

    def _stop(self) -> None:
        for program in self.programs:
            program.stop()


def _at_rest(active: Rollout | None) -> bool:
    """Whether there is none, or it waits for a person and for no device."""
    if active is None:
        return True
    return active.stage == "paused" and active.phase is not None and not active.phase.waiting
