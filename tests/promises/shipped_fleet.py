"""A fleet as its manual says: Mosquitto by `broker-config`, keys by token, an owner's root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.settings import (
    CoordinatorSettings,
    MethodSection,
    SecuritySettings,
    write_new,
)
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.device_agent.cli.enrolment import enrol
from fleetledger.device_agent.home.home import ROOT_FILE
from fleetledger.device_agent.home.status_file import read_status
from fleetledger.device_agent.settings import AgentDataSettings, AgentSettings
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName, DeviceId, FleetId
from fleetledger.simulator.datasets.digits import load_digits
from fleetledger.simulator.engines.mqtt.homes import (
    agent_broker,
    carry_out,
    coordinator_broker,
    write_agent,
    write_password,
)
from fleetledger.simulator.engines.mqtt.processes import Child, Children
from fleetledger.simulator.engines.rounds import import_backbone
from fleetledger.transport.brokers.mosquitto_configuration import LOOPBACK
from tests.chaos.outcome import Places
from tests.end_to_end.process_fleet import ProcessFleet
from tests.promises.fleet_plan import BROKER, COORDINATOR, Delivery, Fault
from tests.transport.standalone import RunningBroker, free_port

SCAN_SECONDS = 2.0
_DIGIT = Preprocessing(mode="L", size=(8, 8), mean=(0.5,), deviation=(0.25,), input_name="image")
_SETTINGS = {"map_width": 320, "form": "exact"}
"""Payloads of about 300 KB, so that they travel in blocks; how images are divided into parts does
not change the sum."""


@dataclass(frozen=True)
class Address:
    """Where the broker will be, and its users' secrets."""

    host: str
    port: int
    folder: Path

    def credentials(self, user: str) -> tuple[str, str]:
        secret = self.folder / "passwords" / user
        return user, secret.read_text(encoding="utf-8").strip()


class ShippedFleet(ProcessFleet):
    """Homes in `folder`, a running broker, and programs that come and go."""

    name = "farm"

    def __init__(self, folder: Path, devices: tuple[str, ...], children: Children) -> None:
        address = Address(LOOPBACK, free_port(LOOPBACK), folder / "broker")
        super().__init__(folder, address, children)  # type: ignore[arg-type]
        self.devices = devices
        self.digits = load_digits()
        self._set_up()
        self.mosquitto = RunningBroker(address.folder, address.port)

    @property
    def places(self) -> Places:
        """Where everything lies that the run leaves."""
        states = {DeviceId(name): self.folder / name / "state" for name in self.devices}
        return Places(self.home, states)

    def stop(self) -> None:
        """End agents and coordinator in an orderly way, and the broker last."""
        self.children.stop()
        self.mosquitto.crash()

    def start_program(self, name: str) -> None:
        if name == BROKER:
            self.mosquitto.start_again()
        elif name == COORDINATOR:
            self.start_coordinator()
        else:
            self.start_agent(name)

    def begin(self, fault: Fault) -> None:
        """Kill or pause a program."""
        if fault.program == BROKER:
            (self.mosquitto.crash if fault.kind == "kill" else self.mosquitto.freeze)()
        elif fault.kind == "kill":
            self.kill(fault.program)
        else:
            self.child(fault.program).pause()

    def end(self, fault: Fault) -> None:
        """Have a program go on, or start it again as its service manager does."""
        if fault.kind == "kill":
            self.start_program(fault.program)
        elif fault.program == BROKER:
            self.mosquitto.thaw()
        else:
            self.child(fault.program).resume()

    def child(self, name: str) -> Child:
        (found,) = (child for child in self.children.running if child.name == name)
        return found

    def died(self) -> list[str]:
        """Return the programs that ended by themselves, and forget them."""
        dead = [child for child in self.children.running if child.process.poll() is not None]
        for child in dead:
            self.children.running.remove(child)
        return [child.name for child in dead]

    def deliver(self, delivery: Delivery) -> None:
        """Have whole files appear in a device's folder."""
        for number in delivery.images:
            label = str(self.digits.labels[number])
            target = self.folder / delivery.device / "data" / label
            target.mkdir(parents=True, exist_ok=True)
            hidden = target / f".{number}.png"
            Image.fromarray(self.digits.images[number], "L").save(hidden)
            hidden.rename(target / f"{number}.png")

    def open_stage(self, labels: range) -> None:
        """Leave a command for the coordinator, which may be away."""
        inbox = OperatorInbox(self.home)
        try:
            inbox.submit(OpenStage(class_names=tuple(ClassName(str(label)) for label in labels)))
        finally:
            inbox.close()

    def runs(self, device: str) -> int | None:
        """Return the version that a device's agent runs; None while none does."""
        status = read_status(self.folder / device / "status.json")
        running = [child for child in self.children.running if child.name == device]
        if status is None or [child.process.pid for child in running] != [status.process]:
            return None
        return status.active_version

    def _set_up(self) -> None:
        settings = CoordinatorSettings(
            fleet=FleetId(self.name),
            broker=coordinator_broker(self.broker),
            method=MethodSection(name="stsa", settings=_SETTINGS),
            stages=StageRules(quiet_seconds=1.0),
            models=ModelRules(solve_every_seconds=2.0),
            security=SecuritySettings(require_keys=True),
        )
        write_new(self.home, settings)
        tokens = {name: invite(self.home, DeviceId(name), 1).token.text for name in self.devices}
        words = ("--out", str(self.broker.folder), "--local-port", "0")
        self.operator("coordinator", "broker-config", *words)
        write_password(self.home, self.broker, COORDINATOR)
        keys = (str(self.folder / "safe" / f"{name}.pem") for name in "abc")
        self.operator("trust", "init", *(word for key in keys for word in ("--root-key", key)))
        carry_out(self.home, import_backbone(self.home, "pixels", scaling_backbone(_DIGIT), _DIGIT))
        for name, token in tokens.items():
            self._set_up_device(name, token)

    def _set_up_device(self, name: str, token: str) -> None:
        home = self.folder / name
        settings = AgentSettings(
            device=DeviceId(name),
            fleet=FleetId(self.name),
            root=Path(ROOT_FILE),
            broker=agent_broker(self.broker),
            data=AgentDataSettings(
                folder=Path("data"), scan_seconds=SCAN_SECONDS, longest_pause_seconds=0
            ),
        )
        write_agent(home, self.broker, settings)
        (home / ROOT_FILE).write_bytes((self.home / "trust" / "root-1.json").read_bytes())
        enrol(home, token)
