"""A coordinator that does what a test says, and an agent in a thread, over the in-memory broker."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.program.assembly import AgentSurroundings, assemble
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, HeldPart
from fleetledger.schemas.envelope import COORDINATOR, Envelope, Sender, decode, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Birth, CoordinatorBirth, CoordinatorDeath, Welcome
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.interface import Connection, IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.transfer import BlockExchange
from tests.device_agent import making
from tests.device_agent import model_files as models

FLEET, DEVICE = FleetId("workshop"), DeviceId("bench-3")
TOPICS = FleetTopics(FLEET)
SECONDS = 300.0
FAST = AgentRules(
    scan_seconds=0.1,
    settle_seconds=0.05,
    birth_shortest=0.2,
    message_shortest=0.1,
    message_longest=0.4,
    retry_shortest=0.1,
    evaluates=True,
)
_Body = TypeVar("_Body", bound=Message)


class ScriptedCoordinator:
    """Sends what it is told to, remembers what arrived."""

    def __init__(self, connect: Callable[[str], Connection]) -> None:
        self.sender = Sender(FLEET, DeviceId(COORDINATOR), BootId.fresh())
        self.connection = connect("coordinator")
        self.connection.subscribe(*TOPICS.from_every_device("state", "msg", "hb"))
        self.connection.start()
        self.connection.wait_connected(SECONDS)
        data_sender = Sender(FLEET, DeviceId(COORDINATOR), BootId.fresh())
        self.exchange = BlockExchange(connect("coordinator.data"), TOPICS, data_sender)
        self.exchange.start()
        self.arrived: list[Envelope] = []
        self._boots: set[BootId] = set()
        self._over: set[BootId] = set()

    @classmethod
    def in_memory(cls, broker: InMemoryBroker) -> "ScriptedCoordinator":
        return cls(lambda name: broker.connection(name, user="coordinator"))

    def stop(self) -> None:
        self.connection.stop()
        self.exchange.stop()

    def send(self, leaf: str, body: Message, *, retain: bool = False) -> None:
        topic = TOPICS.coordinator_state if leaf == "all" else TOPICS.down(DEVICE, leaf)  # type: ignore[arg-type]
        envelope = self.sender.seal(body, sent_ms=0)
        self.connection.publish(OutgoingMessage(topic, encode(envelope), retain=retain))

    def be_born(self, ledger_size: int = 1000) -> None:
        self.send("all", CoordinatorBirth(ledger_size=ledger_size), retain=True)

    def die(self) -> None:
        self.send("all", CoordinatorDeath(), retain=True)

    def welcome(self, boot: BootId, *held: HeldPart, next_part: int = 0) -> None:
        self.send("ctl", Welcome(boot=boot, held=held, next_part=next_part))

    def assign(self, assignment: Assignment) -> None:
        self.exchange.serve(models.lineage().frozen)
        self.send("assignment", assignment, retain=True)

    def desire(self, desired: DesiredModel, *files: bytes) -> None:
        for data in files:
            self.exchange.serve(data)
        self.send("desired", desired, retain=True)

    def accept(self, envelope: Envelope) -> None:
        body: Any = envelope.read(Contribution)
        self.send("rcpt", making.accepted("contribution", body.key, body.revision))

    def fetch(self, offer: Offer, path: Path) -> bytes:
        return self.exchange.fetch(offer, path, DEVICE, seconds=SECONDS).result().read_bytes()

    def wait_for(
        self, kind: type[_Body], where: Callable[[_Body], bool] = lambda body: True
    ) -> tuple[_Body, Envelope]:
        """Return the next message of a kind, among those that arrived and those to come."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for envelope in self.arrived:
                if envelope.header.kind == kind.kind and where(envelope.read(kind)):
                    self.arrived.remove(envelope)
                    return envelope.read(kind), envelope
            self.look(0.05)
        seen = [envelope.header.kind for envelope in self.arrived]
        raise AssertionError(f"no {kind.kind} within {SECONDS} s; other messages: {seen}")

    def look(self, seconds: float) -> None:
        event = self.connection.next_event(seconds)
        if isinstance(event, IncomingMessage):
            envelope = decode(event.payload)
            self._boots.add(envelope.header.boot)
            if envelope.header.boot not in self._over:
                self.arrived.append(envelope)
            self.connection.acknowledge(event)

    def forget_runs(self) -> None:
        """Hear no more of the agent's runs so far, also not what is still on its way."""
        self._over = set(self._boots)
        self.arrived.clear()


class RunningAgent:
    """The real agent with home in `folder`, in a thread."""

    def __init__(self, broker: InMemoryBroker, folder: Path, rules: AgentRules = FAST) -> None:
        self.home = write_settings(folder)

        self._broker, self._rules = broker, rules
        self.failure: BaseException | None = None
        self.agent: AgentShell
        self._built = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self._built.wait(SECONDS)

    def _connect(self, role, will):
        return self._broker.connection(f"{DEVICE}.{role}", user=str(DEVICE), will=will)

    def _run(self) -> None:
        try:
            # Built here, because the store belongs to the thread that opens it.
            self.agent = assemble(
                self.home, AgentSurroundings(self._connect, rules=self._rules)
            ).agent
            self._built.set()
            self.agent.run()
        except BaseException as error:  # noqa: BLE001 - raised again by `stop`
            self.failure = error
            self._built.set()

    def stop(self) -> None:
        self.agent.stop()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        if self.failure is not None:
            raise self.failure


def write_settings(folder: Path, more: str = "", samples: str = "pictures") -> AgentHome:
    """Write the settings of an agent, with `more` sections, and open them."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "agent.toml").write_text(
        f'device = "{DEVICE}"\nfleet = "{FLEET}"\n[data]\nfolder = "data"\n'
        f'evaluation_folder = "test"\nsamples = "{samples}"\n'
        f'[model]\nproviders = ["CPUExecutionProvider"]\ntrial = false\n{more}'
    )
    return AgentHome.open(folder)


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.01)


def settle(folder: Path) -> None:
    for path in folder.rglob("*.png"):
        os.utime(path, (1_000_000, 1_000_000))


def stsa_assignment(form: str = "compact", **details):
    """An assignment of the real method over the 64 pixels themselves."""
    side = statistics_coordinator("stsa")
    own = side.assign({"map": "none", "form": form}, 64)
    return models.assignment(**details).model_copy(
        update={"settings": own.model_dump(mode="json")}
    ), own


def greet(coordinator: ScriptedCoordinator, *held, next_part: int = 0) -> None:
    coordinator.be_born()
    _, envelope = coordinator.wait_for(Birth)
    coordinator.welcome(envelope.header.boot, *held, next_part=next_part)


def welcome_until(coordinator: ScriptedCoordinator, kind: type[_Body]) -> tuple[_Body, Envelope]:
    """Welcome whoever is born, also those who have died since, until somebody says `kind`."""
    coordinator.be_born()
    found: list[Envelope] = []

    def said() -> bool:
        coordinator.look(0.05)
        for envelope in coordinator.arrived:
            if envelope.header.kind == Birth.kind:
                coordinator.welcome(envelope.header.boot)
        found.extend(item for item in coordinator.arrived if item.header.kind == kind.kind)
        coordinator.arrived.clear()
        return bool(found)

    eventually(said)
    return found[0].read(kind), found[0]
