"""A whole fleet in one process: real agents and a real coordinator on the in-memory broker."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import Rules as CoordinatorRules
from fleetledger.coordinator.core.state import read_entry
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.program.assembly import AgentSurroundings, assemble
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator import shell_harness
from tests.coordinator.shell_harness import FLEET, PATIENCE, MemoryCoordinator

SIDE = 4
RULES = AgentRules(
    scan_seconds=0.2,
    settle_seconds=0.2,
    birth_shortest=0.5,
    message_shortest=0.5,
    message_longest=2.0,
    retry_shortest=0.5,
    heartbeat_seconds=1.0,
    evaluates=True,
)
"""Quick ones: the in-memory broker has no latency to be patient with."""


def picture(class_name: str, number: int) -> Image.Image:
    """A small picture: vertical bars, horizontal bars or a spot, with noise of its own."""
    generator = np.random.default_rng([number, *class_name.encode()])
    pixels = generator.integers(0, 60, (SIDE, SIDE)).astype(np.uint8)
    if class_name == "vertical":
        pixels[:, ::2] += 180
    elif class_name == "horizontal":
        pixels[::2, :] += 180
    else:
        pixels[1:3, 1:3] += 180
    return Image.fromarray(pixels, "L")


def put_pictures(folder: Path, class_name: str, numbers: range) -> None:
    """Write pictures the way a device gets them: whole files appear."""
    target = folder / class_name
    target.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        hidden = folder / f".{class_name}-{number}.png"
        picture(class_name, number).save(hidden)
        hidden.rename(target / f"{number}.png")


class MemoryDevice:
    """An agent in a thread of its own."""

    def __init__(self, home: Path, broker: InMemoryBroker, rules: AgentRules = RULES) -> None:
        self.home = home
        self._rules = rules
        self.name = DeviceId(home.name)
        self._broker = broker
        write_home(home, NewHome(device=self.name, fleet=FLEET))
        text = (home / "agent.toml").read_text(encoding="utf-8")
        text = text.replace("# evaluation_folder", "evaluation_folder")
        text = text.replace("trial = true", "trial = false")  # many agents on one machine
        text = text.replace("scan_seconds = 5", "scan_seconds = 0.2")
        (home / "agent.toml").write_text(text, encoding="utf-8")
        (home / "evaluation").mkdir()
        self._agent: AgentShell | None = None
        self._thread: threading.Thread | None = None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def evaluation(self) -> Path:
        return self.home / "evaluation"

    @property
    def outbox(self) -> int:
        """Number of letters without a receipt."""
        assert self._agent is not None
        return len(self._agent._parts.state.records.outbox)

    def files(self) -> frozenset[Digest]:
        """Files in the blob folder."""
        return BlobFolder(AgentHome.open(self.home).state_folder / "blobs").digests()

    def status(self) -> Status:
        """What the agent wrote of itself last; one that has just begun is waited for."""
        file, deadline = AgentHome.open(self.home).status_file, time.monotonic() + PATIENCE
        while (status := read_status(file)) is None:
            assert time.monotonic() < deadline, f"{file} was never written"
            time.sleep(0.01)
        return status

    def cut_off(self) -> None:
        """Lose the control connection without a goodbye, until `reconnect`."""
        self._broker.drop_connection(f"{self.name}.control", comes_back=False)

    def reconnect(self) -> None:
        assert self._agent is not None
        self._agent._parts.control.start()

    def take_over(self) -> None:
        """Connect under the name that another agent has, and push it out."""
        assert self._agent is not None
        self._agent._parts.control.start()
        self._agent._parts.exchange.connection.start()

    def copied(self, home: Path) -> MemoryDevice:
        """Return a device with a copy of this one's files, which is not started."""
        shutil.copytree(self.home, home)
        clone = object.__new__(MemoryDevice)
        clone.__dict__.update(self.__dict__, home=home, _agent=None, _thread=None)
        return clone

    @property
    def boot(self) -> BootId:
        """This run's name."""
        assert self._agent is not None
        return self._agent._parts.state.identity.boot

    def start(self) -> None:
        ready = threading.Event()

        def live() -> None:
            # SQLite wants its connection used by the thread that opened it.
            agent = assemble(
                AgentHome.open(self.home), AgentSurroundings(self._connect, rules=self._rules)
            ).agent
            self._agent = agent
            ready.set()
            agent.run()

        self._thread = threading.Thread(target=live, name=self.name, daemon=True)
        self._thread.start()
        assert ready.wait(300)

    def stop(self) -> None:
        if self._agent is not None and self._thread is not None:
            self._agent.stop()
            self._thread.join(300)
            assert not self._thread.is_alive()
        self._agent = None

    def reinstall(self) -> None:
        """Lose everything but the images and the settings."""
        self.stop()
        shutil.rmtree(self.home / "state")
        self.start()

    def _connect(self, role: str, will: OutgoingMessage | None) -> Connection:
        return self._broker.connection(f"{self.name}.{role}", will=will)


class MemoryFleet:
    """A coordinator and some devices."""

    def __init__(
        self,
        folder: Path,
        broker: InMemoryBroker,
        rules: CoordinatorRules = shell_harness.RULES,
        method: str = "stsa",
        **method_settings: object,
    ) -> None:
        self.broker = broker
        self._rules = rules
        shell_harness.write_home(folder / "coordinator", method, **method_settings)
        self.coordinator = MemoryCoordinator(folder / "coordinator", broker, rules)
        self._folder = folder
        self.devices: dict[str, MemoryDevice] = {}

    def add(self, name: str, rules: AgentRules = RULES) -> MemoryDevice:
        self.devices[name] = MemoryDevice(self._folder / name, self.broker, rules)
        return self.devices[name]

    def begin(self, *classes: str) -> None:
        self.coordinator.begin(*self.devices, classes=classes)
        for device in self.devices.values():
            device.start()

    def restart_coordinator(self) -> None:
        """Kill the coordinator and start another one in the same home."""
        self.coordinator.kill()
        self.coordinator = MemoryCoordinator(self.coordinator.home, self.broker, self._rules)

    def entries(self, kind: type[EntryBody]) -> list[EntryBody]:
        found = self.coordinator.engine.ledger.find(kind)
        return [read_entry(entry.kind, entry.body) for entry in found]

    def until(self, found: Callable[[], object]) -> None:
        self.coordinator.until(found)

    def settle(self, seconds: float) -> None:
        """Let the fleet run on for a while."""
        deadline = time.monotonic() + seconds
        self.coordinator.until(lambda: time.monotonic() >= deadline)

    def counted_samples(self) -> dict[str, int]:
        """Images per class in the sum, by the ledger."""
        totals: dict[str, int] = {}
        for item in self.coordinator.engine.core.state.contributions.counted.values():
            for name, samples in item.samples.items():
                totals[name] = totals.get(name, 0) + samples
        return totals

    def close(self) -> None:
        # The agents' goodbyes need the broker, not the coordinator.
        for device in self.devices.values():
            device.stop()
        self.coordinator.close()
