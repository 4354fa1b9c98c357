"""A fleet on a real broker whose root and release keys lie outside of the coordinator's home."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from fleetledger.coordinator.assembly import CoordinatorSurroundings, assemble
from fleetledger.coordinator.cli.models import app as model_app
from fleetledger.coordinator.cli.trust import app as trust_app
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.program.shell import Shell
from fleetledger.coordinator.serve import mqtt_connect as coordinator_connect
from fleetledger.coordinator.settings import CoordinatorSettings, MethodSection, load
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.program.assembly import AgentSurroundings, rules_of
from fleetledger.device_agent.program.assembly import assemble as assemble_agent
from fleetledger.device_agent.program.main import mqtt_connect
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName, DeviceId, FleetId
from fleetledger.simulator.engines.mqtt.homes import (
    PASSWORD_FILE,
    coordinator_broker,
    write_password,
)
from fleetledger.simulator.engines.mqtt.homes import write_coordinator as write_settings
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.memory_fleet import put_pictures

PATIENCE = 300.0
SMALL = Preprocessing(mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image")
AGENT = """\
device = "{device}"
fleet = "{fleet}"
root = "root.json"
[broker]
host = "{host}"
port = {port}
password_file = "{password}"
[data]
folder = "data"
scan_seconds = 0.2
"""


class RunningCoordinator:
    """A coordinator of some home, in a thread: SQLite wants to be used where it was opened."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ready = threading.Event()
        self._shell: Shell | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def stop(self) -> None:
        assert self._shell is not None
        self._shell.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with ExitStack() as stack:
            connect = coordinator_connect(self._home, load(self._home))
            coordinator = assemble(self._home, CoordinatorSurroundings(connect))
            stack.callback(coordinator.close)
            coordinator.start()
            self._shell = coordinator.shell
            stack.callback(self._shell.say_goodbye)
            self._ready.set()
            self._shell.run()


class ReleasedFleet:
    """One coordinator, one agent, and a safe with the keys."""

    def __init__(self, folder: Path, broker: MosquittoBroker, fleet: str, device: str) -> None:
        self.folder, self.broker = folder, broker
        self.fleet, self.device = FleetId(fleet), DeviceId(device)
        self.home, self.safe, self.agent_home = folder / "home", folder / "safe", folder / device
        self._make_coordinator()
        self.trust("init", *self.safe_keys("--root-key", "a", "b", "c"), *self.release_key("r1"))
        self._make_agent()
        self.coordinator = RunningCoordinator(self.home)
        self._agent: AgentShell | None = None
        self._thread: threading.Thread | None = None

    def safe_keys(self, option: str, *names: str) -> tuple[str, ...]:
        return tuple(word for name in names for word in (option, str(self.safe / f"{name}.pem")))

    def release_key(self, name: str) -> tuple[str, ...]:
        return self.safe_keys("--release-key", name)

    def trust(self, *words: str) -> str:
        return self._invoke(trust_app, *words, "--home", str(self.home))

    def model(self, *words: str) -> str:
        return self._invoke(model_app, *words, "--home", str(self.home))

    def sign(self, version: int, key: str) -> str:
        return self.model("sign", str(version), *self.safe_keys("--key", key))

    def learn(self, *classes: str) -> None:
        """Have the device learn ten pictures of each class, in a stage of their own."""
        for name in classes:
            put_pictures(self.agent_home / "data", name, range(10))
        names = tuple(ClassName(name) for name in classes)
        self._command(OpenStage(class_names=names))

    def start_agent(self) -> None:
        ready = threading.Event()

        def live() -> None:
            home = AgentHome.open(self.agent_home)
            quick = {"settle_seconds": 0.2, "message_shortest": 0.5, "heartbeat_seconds": 1.0}
            agent = assemble_agent(
                home, AgentSurroundings(mqtt_connect(home), rules=replace(rules_of(home), **quick))
            ).agent
            self._agent = agent
            ready.set()
            agent.run()

        self._thread = threading.Thread(target=live, daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)

    def close(self) -> None:
        if self._agent is not None and self._thread is not None:
            self._agent.stop()
            self._thread.join(PATIENCE)
        self.coordinator.stop()

    def status(self) -> Status | None:
        return read_status(AgentHome.open(self.agent_home).status_file)

    def runs(self) -> int | None:
        """The version that the agent says it runs."""
        status = self.status()
        return None if status is None else status.active_version

    def told(self) -> str:
        """What became of the last desired model, in the agent's words."""
        status = self.status()
        return "" if status is None else status.model_state

    def releases(self) -> list[tuple[int, int]]:
        """Number and version of every release in the ledger."""
        with LedgerReader.open_read_only(ledger_path(self.home)) as ledger:
            found = [
                ReleaseSigned.model_validate(entry.body).signed.release
                for entry in ledger.find(ReleaseSigned)
            ]
        return [(item.number, item.version) for item in found]

    def until(self, found: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not found():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.1)

    def waits(self, version: int) -> bool:
        """Whether a version waits for its release."""
        return f"model {version} for all devices waits" in self.trust("show")

    def _make_coordinator(self) -> None:
        self.home.mkdir()
        settings = CoordinatorSettings(
            fleet=self.fleet,
            broker=coordinator_broker(self.broker),
            method=MethodSection(settings={"map": "none", "form": "exact"}),
            stages=StageRules(quiet_seconds=0.2),
            models=ModelRules(solve_every_seconds=0.2),
        )
        write_settings(self.home, self.broker, settings)
        (self.home / "pixels.onnx").write_bytes(scaling_backbone(SMALL))
        (self.home / "pixels.json").write_text(SMALL.model_dump_json(), encoding="utf-8")
        backbone = prepare_backbone(
            self.home, self.home / "pixels.onnx", self.home / "pixels.json", trusted=True
        )
        self._command(AdmitDevice(device=self.device))
        self._command(ImportBackbone(backbone=backbone))

    def _make_agent(self) -> None:
        (self.agent_home / "data").mkdir(parents=True)
        write_password(self.agent_home, self.broker, self.device)
        text = AGENT.format(
            device=self.device,
            fleet=self.fleet,
            host=self.broker.host,
            port=self.broker.port,
            password=PASSWORD_FILE,
        )
        (self.agent_home / "agent.toml").write_text(text, encoding="utf-8")
        root = (self.home / "trust" / "root-1.json").read_bytes()
        (self.agent_home / "root.json").write_bytes(root)

    def _command(self, command: Command) -> str:
        return carried_out(self.home, command).text

    def _invoke(self, app: object, *words: str) -> str:
        done = CliRunner().invoke(app, list(words), catch_exceptions=False)  # type: ignore[arg-type]
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())
