"""A device of a virtual world: the real agent on a virtual network, in memory only when it acts.

While the agent rests, its store is closed and the pieces of its run are a file. Its connections,
its transfers and its worker stay, so nobody on the network can tell.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.part_secret import SECRET_FILE
from fleetledger.device_agent.program.assembly import (
    AgentRun,
    AgentSurroundings,
    AssembledAgent,
    Connect,
    assemble,
)
from fleetledger.device_agent.program.shell import Agent
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.rollouts.held_out import FOLDER, RolloutGear
from fleetledger.simulator.virtual.device_jobs import (
    Equipment,
    Resources,
    VirtualDeviceJobs,
    named,
)
from fleetledger.simulator.virtual.exchange import VirtualExchange
from fleetledger.simulator.virtual.files import SharedFiles, SharingExchange
from fleetledger.simulator.virtual.loop import Endpoint
from fleetledger.simulator.virtual.network import VirtualConnection
from fleetledger.simulator.virtual.rest import rest, wake
from fleetledger.simulator.virtual.seeds import seeded_boot, seeded_secret
from fleetledger.simulator.virtual.slots import QuickSlots
from fleetledger.simulator.virtual.swapper import Swapper
from fleetledger.simulator.virtual.worker import InlineWorker
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.memory import BLOCK_SIZE
from fleetledger.transport.meter import Counts
from fleetledger.transport.transfer import Exchange, Party

AHEAD_SECONDS = 2.0
"""How far a device may be ahead of the others while files come."""
FEW_MESSAGES = 4


@dataclass(frozen=True)
class VirtualContext:
    """What all devices of a world stand on."""

    world: VirtualWorld
    topics: FleetTopics
    swapper: Swapper
    files: SharedFiles
    resources: Resources
    rules: AgentRules
    capabilities: Capabilities
    seed: int
    blank_store: Path
    """A database with the tables of a store and nothing in them, to begin with."""
    agents: Path
    """Folder with a home for each."""
    settings: AgentSettings
    """Of every device, but for its name."""
    era: int
    """Differs between processes that run one fleet after another, so that boots differ too."""
    rollout: RolloutGear | None = None
    """What devices get for the rollout at the end; None without one."""


@dataclass(frozen=True, slots=True)
class _Life:
    """One run of the agent's program, from its start to its end, also while it rests."""

    run: AgentRun
    exchange: SharingExchange
    endpoint: Endpoint


class VirtualDevice:
    """One device, on or off."""

    __slots__ = (
        "_awake",
        "_context",
        "_life",
        "_runs",
        "_spent",
        "busy_until",
        "jobs",
        "name",
        "unanswered",
    )

    def __init__(self, context: VirtualContext, name: DeviceId) -> None:
        self.name = name
        self.unanswered = 0
        """Messages without a receipt, when it was last stepped."""
        self.busy_until = -math.inf
        """When the device takes messages again."""
        gear = context.rollout
        failing = gear is not None and name in gear.fleet.failing
        self.jobs = VirtualDeviceJobs(context.resources, failing=failing)
        self._context = context
        self._spent = Counts()
        self._runs = 0
        self._life: _Life | None = None
        self._awake: AssembledAgent | None = None

    @property
    def on(self) -> bool:
        """Whether the agent's program runs, awake or at rest."""
        return self._life is not None

    def traffic(self) -> Counts:
        """Return what crossed its connections since it was made."""
        return self._spent + self._life.run.traffic() if self._life is not None else self._spent

    def start(self) -> None:
        """Switch the device on."""
        assert self._life is None, "it runs already"
        self._runs += 1
        self._prepare()
        self._life = life = self._begun()
        self._awaken(life).agent.begin()
        self._context.swapper.stepped(self)
        life.endpoint.ask()

    def stop(self) -> None:
        """Switch it off; it says goodbye."""
        if self._life is not None:
            self._awaken(self._life).agent.end()
            self._leave()

    def close(self) -> None:
        """Close its files, as the end of the simulating process would."""
        if self._awake is not None:
            self._awake.parts.store.close()
        self._leave()

    def keep_busy(self, until: float) -> None:
        """Let it take no message before a time."""
        self.busy_until = max(self.busy_until, until)
        if self._life is not None:
            self._life.endpoint.not_before = max(self._life.endpoint.not_before, until)

    def rest(self) -> None:
        """Go to the disk until something comes."""
        awake = self._awake
        if awake is not None:
            self._file("resting.json").write_bytes(rest(awake.parts.state, awake.agent.wake_at))
            awake.parts.store.close()
            self._sleep()

    def _file(self, name: str) -> Path:
        return self._context.agents / self.name / "state" / name

    def _prepare(self) -> None:
        secret = self._file(SECRET_FILE)
        if not secret.exists():
            secret.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._context.blank_store, self._file("agent.db"))
            secret.write_bytes(seeded_secret(self._context.seed, self.name))
        if self._context.rollout is not None:
            folder = self._context.agents / self.name / FOLDER
            self._context.rollout.held_out.deliver(self.name, folder)

    def _begun(self) -> _Life:
        """Put the agent together for a new run, whose connections and transfers stay."""
        context, name = self._context, self.name
        boot = seeded_boot(context.seed, name, context.era, self._runs)
        awake = self._assembled(boot)
        control, exchange = awake.run.control, awake.run.exchange
        assert isinstance(control, VirtualConnection)
        assert isinstance(exchange, SharingExchange)
        endpoint = Endpoint(context.world.loop, lambda: self._step(life))
        life = _Life(awake.run, exchange, endpoint)
        control.on_event = life.endpoint.ask
        control.may_wait = self._may_wait
        self.jobs.deliver = awake.run.worker.put
        return life

    def _assembled(self, boot: BootId, run: AgentRun | None = None) -> AssembledAgent:
        context = self._context
        settings = context.settings.model_copy(update={"device": self.name})
        if context.rollout is not None:
            settings = context.rollout.settings(settings, self.name)
        home = AgentHome(context.agents / self.name, settings)
        self._awake = awake = assemble(home, self._surroundings(boot), run)
        self.jobs.equipment = Equipment.of(awake.parts, context.resources.models)
        return awake

    def _surroundings(self, boot: BootId) -> AgentSurroundings:
        context = self._context
        return AgentSurroundings(
            connect=self._connect,
            exchange=self._exchange,
            jobs=lambda *_: self.jobs,
            worker=InlineWorker,
            slots=QuickSlots.within,
            clock=context.world.loop.clock.readings,
            durable=False,
            block_size=BLOCK_SIZE,
            boot=boot,
            name_installation=lambda: seeded_boot(context.seed, self.name, "installation"),
            capabilities=context.capabilities,
            rules=named(context.rules, self.name),
            tells_status=False,
            machine=None,
        )

    def _connect(self, role: str, will: OutgoingMessage | None) -> VirtualConnection:
        return self._context.world.network.connection(f"{self.name}.{role}", will=will)

    def _exchange(self, _: Connect, party: Party) -> Exchange:
        """Return an exchange; what goes to the proxy is shared with nobody."""
        context = self._context
        if party.topics.branch:
            return VirtualExchange(context.world, party)
        return SharingExchange(context.world, party, context.files)

    def _awaken(self, life: _Life) -> AssembledAgent:
        if self._awake is not None:
            return self._awake
        awake = self._assembled(life.run.identity.boot, life.run)
        awake.agent.wake_at = wake(self._file("resting.json").read_bytes(), awake.parts.state)
        return awake

    def _may_wait(self, topic: str) -> bool:
        """Whether a message need not wake an agent that rests: a receipt, after which it rests on.

        With more messages than these some may have to be sent again soon.
        """
        few = self.unanswered <= FEW_MESSAGES
        return self._awake is None and few and topic.endswith("/rcpt")

    def _step(self, life: _Life) -> float:
        awake, clock = self._awaken(life), self._context.world.loop.clock
        began = clock.now
        try:
            self._go_on(awake.agent, life.exchange)
            life.endpoint.not_before = max(life.endpoint.not_before, clock.now)
        finally:
            clock.now = began
        self.unanswered = len(awake.parts.state.records.outbox)
        self._context.swapper.stepped(self)
        return min(awake.agent.wake_at, life.exchange.next_arrival())

    def _go_on(self, agent: Agent, exchange: SharingExchange) -> None:
        """Do what there is to do, and go ahead of the others to when files arrive.

        Nobody can tell, since messages of the device leave later, too; and an agent need not go to
        rest while it waits for one file after another.
        """
        clock = self._context.world.loop.clock
        horizon = clock.now + AHEAD_SECONDS
        exchange.receive(self.name, clock.now)
        while True:
            while agent.step(0):
                pass
            arrival = exchange.next_arrival()
            if arrival > horizon:
                return
            clock.now = max(clock.now, arrival)
            exchange.receive(self.name, clock.now)

    def _sleep(self) -> None:
        self._awake = self.jobs.equipment = None
        self._context.swapper.forget(self)

    def _leave(self) -> None:
        if self._life is not None:
            self._life.endpoint.end()
            self._spent += self._life.run.traffic()
            self._life.run.exchange.stop()
            self._life.run.proxy.stop()
        self._sleep()
        self._life = None
