"""A device of a virtual world: the real agent on a virtual network, in memory only when it acts.

While the agent rests, its store is closed and the pieces of its run are a file. Its connections,
its transfers and its worker stay, so nobody on the network can tell.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from device_agent.chance import SECRET_FILE
from device_agent.core.state import Identity, Rules, State
from device_agent.home import AgentHome
from device_agent.mail import Mail, make_will
from device_agent.proxy_blocks import ProxyBlocks
from device_agent.settings import AgentSettings
from device_agent.shell import Agent, Parts
from device_agent.store.store import Store
from schemas.envelope import Sender
from schemas.presence import Capabilities
from schemas.topics import FleetTopics
from schemas.values import BootId, DeviceId
from simulator.virtual.bench import DeviceBench, Equipment, Laboratory
from simulator.virtual.exchange import Party, SharingExchange, VirtualExchange
from simulator.virtual.files import SharedFiles
from simulator.virtual.loop import Endpoint
from simulator.virtual.network import VirtualConnection
from simulator.virtual.pager import Pager
from simulator.virtual.resting import rest, wake
from simulator.virtual.seeds import seeded_boot, seeded_secret
from simulator.virtual.worker import InlineWorker
from simulator.virtual.world import World
from transport.meter import Counts

AHEAD_SECONDS = 2.0
"""How far a device may be ahead of the others while files come."""
FEW_LETTERS = 4


@dataclass(frozen=True)
class Ground:
    """What all devices of a world stand on."""

    world: World
    topics: FleetTopics
    pager: Pager
    files: SharedFiles
    laboratory: Laboratory
    rules: Rules
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


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the agent's program, from its start to its end."""

    identity: Identity
    control: VirtualConnection
    exchange: SharingExchange
    proxy: ProxyBlocks
    mail: Mail
    worker: InlineWorker
    endpoint: Endpoint

    def traffic(self) -> Counts:
        return self.control.meter.total() + self.exchange.traffic() + self.proxy.traffic()


@dataclass(frozen=True, slots=True)
class _Awake:
    """What is in memory of an agent that is awake."""

    agent: Agent
    state: State
    store: Store


class VirtualDevice:
    """One device, on or off."""

    __slots__ = (
        "_awake",
        "_ground",
        "_run",
        "_runs",
        "_spent",
        "bench",
        "busy_until",
        "letters",
        "name",
    )

    def __init__(self, ground: Ground, name: DeviceId) -> None:
        self.name = name
        self.letters = 0
        """Letters without a receipt, when it was last stepped."""
        self.busy_until = -math.inf
        """When the device takes messages again."""
        self.bench = DeviceBench(ground.laboratory)
        self._ground = ground
        self._spent = Counts()
        self._runs = 0
        self._run: _Run | None = None
        self._awake: _Awake | None = None

    @property
    def on(self) -> bool:
        """Whether the agent's program runs, awake or at rest."""
        return self._run is not None

    def traffic(self) -> Counts:
        """Return what crossed its connections since it was made."""
        return self._spent + self._run.traffic() if self._run is not None else self._spent

    def start(self) -> None:
        """Switch the device on."""
        assert self._run is None, "it runs already"
        self._runs += 1
        self._prepare()
        store = self._open_store()
        self._run = run = self._new_run(store)
        self._load(run, store).agent.begin()
        self._ground.pager.stepped(self)
        run.endpoint.ask()

    def stop(self) -> None:
        """Switch it off; it says goodbye."""
        if self._run is not None:
            self._awaken(self._run).agent.end()
            self._leave()

    def close(self) -> None:
        """Close its files, as the end of the simulating process would."""
        if self._awake is not None:
            self._awake.store.close()
        self._leave()

    def keep_busy(self, until: float) -> None:
        """Let it take no message before a time."""
        self.busy_until = max(self.busy_until, until)
        if self._run is not None:
            self._run.endpoint.not_before = max(self._run.endpoint.not_before, until)

    def rest(self) -> None:
        """Go to the disk until something comes."""
        awake = self._awake
        if awake is not None:
            self._file("resting.json").write_bytes(rest(awake.state, awake.agent.wake_at))
            awake.store.close()
            self._sleep()

    def _file(self, name: str) -> Path:
        return self._ground.agents / self.name / "state" / name

    def _prepare(self) -> None:
        secret = self._file(SECRET_FILE)
        if not secret.exists():
            secret.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._ground.blank_store, self._file("agent.db"))
            secret.write_bytes(seeded_secret(self._ground.seed, self.name))

    def _open_store(self) -> Store:
        ground, run = self._ground, self._run
        return Store(
            self._file("agent.db"),
            durable=False,
            name=lambda: seeded_boot(ground.seed, self.name, "installation"),
            known=run.identity.installation if run is not None else None,
        )

    def _new_run(self, store: Store) -> _Run:
        ground, name = self._ground, self.name
        boot = seeded_boot(ground.seed, name, ground.era, self._runs)
        clock = ground.world.loop.clock.readings
        sender = Sender(ground.topics.fleet, name, boot)
        will = make_will(ground.topics, name, sender, clock)
        control = ground.world.network.connection(f"{name}.control", will=will)
        blocks = Party(ground.topics, Sender(ground.topics.fleet, name, boot), name)
        run = _Run(
            identity=Identity(store.installation, boot, ground.capabilities),
            control=control,
            exchange=SharingExchange(ground.world, blocks, ground.files),
            proxy=ProxyBlocks(lambda: self._exchange_with_proxy(boot)),
            mail=Mail(control, ground.topics, name, sender, clock),
            worker=InlineWorker(self.bench.answer, control.wake),
            endpoint=Endpoint(ground.world.loop, lambda: self._step(run)),
        )
        control.on_event = run.endpoint.ask
        control.may_wait = self._may_wait
        self.bench.deliver = run.worker.put
        return run

    def _exchange_with_proxy(self, boot: BootId) -> VirtualExchange:
        world, fleet = self._ground.world, self._ground.topics.fleet
        party = Party(FleetTopics(fleet, "proxy"), Sender(fleet, self.name, boot), self.name)
        exchange = VirtualExchange(world, party)
        exchange.begin()
        return exchange

    def _load(self, run: _Run, store: Store) -> _Awake:
        ground = self._ground
        settings = ground.settings.model_copy(update={"device": self.name})
        equipment = Equipment.of(
            AgentHome(ground.agents / self.name, settings), ground.laboratory.models
        )
        self.bench.equipment = equipment
        state = State(ground.rules, run.identity, store.load())
        agent = Agent(
            Parts(
                home=equipment.home,
                state=state,
                store=store,
                blobs=equipment.blobs,
                slots=equipment.slots,
                control=run.control,
                exchange=run.exchange,
                mail=run.mail,
                bench=self.bench,
                worker=run.worker,
                proxy=run.proxy,
                status_file=None,
                clock=ground.world.loop.clock.readings,
            )
        )
        self._awake = _Awake(agent, state, store)
        return self._awake

    def _awaken(self, run: _Run) -> _Awake:
        if self._awake is not None:
            return self._awake
        awake = self._load(run, self._open_store())
        awake.agent.wake_at = wake(self._file("resting.json").read_bytes(), awake.state)
        return awake

    def _may_wait(self, topic: str) -> bool:
        """Whether a message need not wake an agent that rests: a receipt, after which it rests on.

        With more letters than these some may have to be sent again soon.
        """
        few = self.letters <= FEW_LETTERS
        return self._awake is None and few and topic.endswith("/rcpt")

    def _step(self, run: _Run) -> float:
        awake, clock = self._awaken(run), self._ground.world.loop.clock
        began = clock.now
        try:
            self._go_on(awake.agent, run)
            run.endpoint.not_before = max(run.endpoint.not_before, clock.now)
        finally:
            clock.now = began
        self.letters = len(awake.state.records.outbox)
        self._ground.pager.stepped(self)
        return min(awake.agent.wake_at, run.exchange.next_arrival())

    def _go_on(self, agent: Agent, run: _Run) -> None:
        """Do what there is to do, and go ahead of the others to when files arrive.

        Nobody can tell, since messages of the device leave later, too; and an agent need not go to
        rest while it waits for one file after another.
        """
        clock = self._ground.world.loop.clock
        horizon = clock.now + AHEAD_SECONDS
        run.exchange.receive(self.name, clock.now)
        while True:
            while agent.step(0):
                pass
            arrival = run.exchange.next_arrival()
            if arrival > horizon:
                return
            clock.now = max(clock.now, arrival)
            run.exchange.receive(self.name, clock.now)

    def _sleep(self) -> None:
        self._awake = self.bench.equipment = None
        self._ground.pager.forget(self)

    def _leave(self) -> None:
        if self._run is not None:
            self._run.endpoint.end()
            self._spent += self._run.traffic()
            self._run.exchange.stop()
            self._run.proxy.stop()
        self._sleep()
        self._run = None
