"""A fleet whose programs run as they would anywhere: a coordinator and agents, each a process."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.settings import Exemplars
from fleetledger.schemas.reports import Evaluation
from fleetledger.simulator.engines.mqtt.homes import PASSWORD_FILE, write_password
from fleetledger.simulator.engines.mqtt.processes import Children, fleetledger_command
from fleetledger.transport.brokers import MosquittoBroker

PATIENCE = 300.0
DIGITS_PREPROCESSING = """\
mode = "L"
size = [8, 8]
mean = [0.5]
deviation = [0.25]
input_name = "image"
"""
WITHOUT_TORCH = """\
import runpy
import sys
sys.modules["torch"] = None
runpy.run_module("fleetledger.device_agent", run_name="__main__", alter_sys=True)
"""
SOON_BACK = """\
import functools
import runpy
from fleetledger.device_agent.program import assembly
from fleetledger.transport import mqtt_settings
mqtt_settings.MqttSettings = functools.partial(
    mqtt_settings.MqttSettings, reconnect_longest_seconds=2.0
)
assembly.AgentRules = functools.partial(assembly.AgentRules, heartbeat_seconds=0.5)
runpy.run_module("fleetledger.device_agent", run_name="__main__", alter_sys=True)
"""
"""An agent that says every half second that it is alive: only by what it says after the
coordinator asked can two of a name be told from one."""
Body = TypeVar("Body", bound=EntryBody)


class ProcessFleet:
    """A fleet, and the operator's command line."""

    name = "digits"
    """Fleets that share a broker need one each: it keeps what was retained."""

    def __init__(self, folder: Path, broker: MosquittoBroker, children: Children) -> None:
        self.folder = folder
        self.home = folder / "coordinator"
        self.broker = broker
        self.children = children

    def operator(self, *arguments: str, code: int = 0) -> str:
        """Run a command of the operator that ends with a code; return what it says."""
        return self.run(*arguments, "--home", str(self.home), code=code)

    def agent(self, verb: str, device: str, *arguments: str) -> str:
        """Run a command of a device's owner; return what it says."""
        return self.run("agent", verb, *arguments, "--home", str(self.folder / device))

    def set_up_coordinator(self, settings: str) -> None:
        """Make the coordinator's home; `settings` stand where `coordinator init` names a method."""
        write_password(self.home, self.broker, "coordinator")
        access = self.access(self.broker.port)
        self.operator("coordinator", "init", "--trial", "--fleet", self.name, *access)
        path = self.home / "coordinator.toml"
        before, _, _ = path.read_text(encoding="utf-8").partition("[method]")
        path.write_text(before + settings, encoding="utf-8")

    def set_up_agent(
        self,
        device: str,
        port: int | None = None,
        exemplars: Exemplars = "images",
        options: Sequence[str] = (),
    ) -> None:
        """Make a device's home, by further options of `agent init`, and admit the device."""
        home = self.folder / device
        write_password(home, self.broker, device)
        access = self.access(port or self.broker.port)
        self.agent("init", device, "--device", device, "--fleet", self.name, *access, *options)
        path = home / "agent.toml"
        text = path.read_text(encoding="utf-8")
        text = text.replace("# evaluation_folder", "evaluation_folder")
        text = text.replace("trial = true", "trial = false")  # many agents on one machine
        text = text.replace("scan_seconds = 5", "scan_seconds = 0.5")
        text = text.replace("longest_pause_seconds = 86400", "longest_pause_seconds = 0")
        text = text.replace('exemplars = "images"', f'exemplars = "{exemplars}"')
        path.write_text(text, encoding="utf-8")
        self.operator("coordinator", "admit", device)

    def allow(self, device: str, permission: str) -> None:
        """Set a permission of a device's policy that its owner does not give by default."""
        path = self.folder / device / "agent.toml"
        before = path.read_text(encoding="utf-8")
        after = before.replace(f"{permission} = false", f"{permission} = true")
        assert after != before
        path.write_text(after, encoding="utf-8")

    def import_network(self) -> None:
        """Begin a lineage on pictures as `put_digits` deals them out."""
        described = self.folder / "digits.toml"
        described.write_text(DIGITS_PREPROCESSING, encoding="utf-8")
        self.operator("model", "import-network", "--preprocessing", str(described))

    def start_coordinator(self) -> None:
        self.start("coordinator", "coordinator", "serve", "--home", str(self.home))

    def start_agent(self, device: str) -> None:
        home = str(self.folder / device)
        self.start(device, "agent", "run", "--home", home, "--log-level", "debug")

    def start_agent_without_torch(self, device: str) -> None:
        """Start an agent that finds no torch, as where nobody has installed it."""
        home = str(self.folder / device)
        self.children.start(device, [sys.executable, "-c", WITHOUT_TORCH, home])

    def start_agent_that_soon_returns(self, device: str) -> None:
        """Start an agent that shares its name with another, and takes turns with it quickly."""
        home = str(self.folder / device)
        self.children.start(device, [sys.executable, "-c", SOON_BACK, home])

    def start(self, name: str, *arguments: str) -> None:
        self.children.start(name, fleetledger_command(*arguments))

    def kill(self, device: str) -> None:
        """End an agent without a word."""
        self.signal(device, signal.SIGKILL)
        self._forget(device)

    def stop(self, device: str) -> None:
        """Have an agent end in an orderly way."""
        self.signal(device, signal.SIGTERM)
        self._forget(device)

    def signal(self, device: str, number: signal.Signals) -> None:
        (child,) = (child for child in self.children.running if child.name == device)
        child.process.send_signal(number)

    def said(self, name: str) -> str:
        """Return everything that a program has written, over all its starts."""
        return (self.children.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def entries(self, kind: type[Body]) -> list[tuple[str | None, Body]]:
        """Return the ledger's entries of a kind, with the device of each."""
        return [(entry.device, body) for entry, body in self._read(kind)]

    def evaluations(self, version: int) -> list[Evaluation]:
        """Return what devices found when they tried a model on their own images."""
        found = [body.evaluation for _, body in self.entries(DeviceEvaluated)]
        return [evaluation for evaluation in found if evaluation.version == version]

    def status(self, device: str) -> Status:
        """Return what an agent last wrote about itself."""
        status = read_status(self.folder / device / "status.json")
        assert status is not None
        return status

    def shown(self, kind: type[Body], device: str | None = None) -> str:
        """Return what `ledger show` says of the newest entry of a kind, of a device or of none."""
        indices = [entry.index for entry, _ in self._read(kind) if entry.device == device]
        return self.operator("ledger", "show", str(indices[-1]))

    def until(self, found: Callable[[], object], pause: float = 0.2) -> None:
        """Wait for something; fail with the programs' last words where it does not happen."""
        deadline = time.monotonic() + PATIENCE
        while not found():
            self.children.check()
            assert time.monotonic() < deadline, self.children.tails()
            time.sleep(pause)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command here, since a program for each would mostly import; return what it says."""
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert done.exit_code == code, f"{done.output}{done.exception}"
        return done.stdout

    def _read(self, kind: type[Body]) -> list[tuple[Entry, Body]]:
        found = []
        with LedgerReader.open_read_only(ledger_path(self.home)) as ledger:
            for entry in ledger.find(kind):
                body = read_entry(entry.kind, entry.body)
                assert isinstance(body, kind)
                found.append((entry, body))
        return found

    def _forget(self, device: str) -> None:
        (child,) = (child for child in self.children.running if child.name == device)
        child.process.wait()
        self.children.running.remove(child)

    def access(self, port: int) -> tuple[str, ...]:
        return ("--broker-port", str(port), "--password-file", str(PASSWORD_FILE))


def put_digits(folder: Path, devices: Sequence[str], late: Collection[str] = ()) -> None:
    """Deal out scikit-learn's digits: a fifth is for evaluation, alike on every device.

    What the devices `late` train on waits in a folder `later` of theirs; see `bring`.
    """
    from sklearn.datasets import load_digits  # an extra

    digits = load_digits()
    for index, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        picture = Image.fromarray((pixels * 15.9).astype(np.uint8), "L")
        device = devices[index % len(devices)]
        own = "later" if device in late else "data"
        kind, homes = (own, [device]) if index % 5 else ("evaluation", list(devices))
        for home in homes:
            target = folder / home / kind / str(label)
            target.mkdir(parents=True, exist_ok=True)
            picture.save(target / f"{index}.png")


def bring(folder: Path, device: str, classes: Sequence[str]) -> None:
    """Have images of some classes come to a late device."""
    for name in classes:
        (folder / device / "later" / name).rename(folder / device / "data" / name)
