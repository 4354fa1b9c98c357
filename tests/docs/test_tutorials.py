"""The tutorials, followed literally: every file, every command, and what they show."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from fleetledger.coordinator.dashboard.pages.fleet import chosen
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reports.answers import FleetDevice
from fleetledger.coordinator.reports.fleet import FleetNow, fleet_now
from fleetledger.coordinator.topics.models.entries import ModelImported
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers.authority import names_of
from fleetledger.transport.errors import NotAuthorisedError
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import find_tls
from tests.coordinator.program.test_webhook import Hook, hook
from tests.device_agent.scripted import eventually
from tests.docs.following import follow
from tests.docs.sessions import Command, Session, commands, session
from tests.test_architecture import ROOT
from tests.transport.standalone import free_port

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.mark.slow
@pytest.mark.broker
def test_a_fleet_in_ten_minutes(tmp_path: Path) -> None:
    page = TUTORIALS / "a-fleet-in-ten-minutes.md"
    replaced = {"1884": str(free_port("127.0.0.1"))}
    with session(tmp_path, page, replaced) as opened:
        for command in commands(page):
            opened.type(command)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_simulation_of_your_own(tmp_path: Path) -> None:
    page = TUTORIALS / "a-simulation-of-your-own.md"
    with session(tmp_path, page, {}) as opened:
        for command in commands(page):
            opened.type(command)
    for run in ("wide", "narrow"):
        assert (tmp_path / "runs" / run / "report.html").exists()


def test_a_method_of_your_own(tmp_path: Path) -> None:
    page = TUTORIALS / "a-method-of-your-own.md"
    with session(tmp_path, page, {}) as opened:
        said = [opened.type(command) for command in commands(page)]
    assert "d95bdba34c33 89.2 %" in said[0]
    assert "d95bdba34c33 87.3 %" in said[1]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.broker
def test_pushing_models_of_your_own(tmp_path: Path) -> None:
    page = ROOT / "docs" / "push-models.md"
    replaced = {"1884": str(free_port("127.0.0.1"))}
    with session(tmp_path, page, replaced) as opened:
        for command in commands(page):
            opened.type(command)
    with LedgerReader.open_read_only(ledger_path(tmp_path / "coordinator-home")) as ledger:
        imported = [entry.body for entry in ledger.find(ModelImported)]
    first, second = imported[:2]
    assert second["frozen"] == first["frozen"], "the second version moves nothing but its head"
    assert second["head"] != first["head"]


def write_older_program(folder: Path) -> None:
    """Put a program of this checkout that was installed as version 0.0.9 into `folder`/older."""
    metadata = folder / "older" / "fleetledger-0.0.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: fleetledger\nVersion: 0.0.9\n")
    program = folder / "older" / "fleetledger"
    path = f"{folder / 'older'}{os.pathsep}{ROOT / 'src'}"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m fleetledger "$@"\n')
    program.chmod(0o755)


class OperatorsYear:
    """Types both pages, and looks beside them at what they promise."""

    def __init__(self, opened: Session, folder: Path, alerts: Hook) -> None:
        self.opened, self.folder, self.alerts = opened, folder, alerts
        self.before: dict[str, str] = {}

    def type(self, command: Command) -> None:
        line = command.line
        if "coordinator serve" in line and "doors" not in line:
            with (self.folder / "coordinator-home" / "coordinator.toml").open("a") as settings:
                settings.write(f'\n[webhook]\nurl = "{self.alerts.url}"\nseconds = 1\n')
        if line == "fleetledger agent run --home camera-1 &" and "older" not in self.before:
            write_older_program(self.folder)
            self.before["older"] = line
            command = Command(f"older/{line}", ())
        for start, look in (
            ("kill %3", self.one_is_old),
            ("fleetledger agent rotate-key", self.keep_key),
            ("rm doors-kits", self.keep_password),
        ):
            if line.startswith(start):
                look()
        self.opened.type(command)

    def fleet(self) -> FleetNow:
        home = self.folder / "coordinator-home"
        with ledger_of(home) as ledger:
            return fleet_now(ledger, read_live(home), time.time_ns())

    def device(self, name: str) -> FleetDevice:
        return next(one for one in self.fleet().devices if one.name == name)

    def one_is_old(self) -> None:
        devices = self.fleet().devices
        assert [one.name for one in chosen(devices, "program:0.0.9")] == ["camera-1"]
        assert self.old_ones()

    def old_ones(self) -> list[str]:
        needs = (need.sentence for need in self.fleet().needs)
        return [said for said in needs if "runs fleetledger 0.0.9" in said]

    def keep_key(self) -> None:
        self.before["key"] = self.device("camera-1").key
        eventually(lambda: not self.old_ones())  # it was upgraded

    def keep_password(self) -> None:
        path = self.folder / "doors-kits" / "broker" / "passwords" / "door-1"
        self.before["password"] = path.read_text().strip()

    def old_password_is_refused(self) -> bool:
        home = AgentHome.open(self.folder / "door-1")
        broker = home.settings.broker
        made = MqttConnection(
            MqttSettings(
                client_id=fresh_client_id("door-1", "old"),
                host=broker.host,
                port=broker.port,
                user="door-1",
                password=self.before["password"],
                tls=find_tls(broker.tls, home.folder, "door-1"),
            )
        )
        made.start()
        try:
            made.wait_connected(60)
        except NotAuthorisedError:
            return True
        finally:
            made.stop()
        return False


@pytest.mark.slow
@pytest.mark.nightly  # kits and TLS over a broker by day: tests/end_to_end
@pytest.mark.broker
def test_setting_up_many_devices_and_their_year(tmp_path: Path) -> None:
    """The fleet of the first page is that of the second; the coordinator also posts alerts."""
    pages = [ROOT / "docs" / name for name in ("set-up-many-devices.md", "operating.md")]
    replaced = {port: str(free_port("127.0.0.1")) for port in ("8883", "8893")}
    with hook() as alerts, session(tmp_path, pages[0], replaced) as opened:
        follow(pages[1], tmp_path)
        year = OperatorsYear(opened, tmp_path, alerts)
        for command in (command for page in pages for command in commands(page)):
            year.type(command)
        assert year.device("camera-1").key not in {"", year.before["key"]}
        assert year.device("camera-3").state == "online"
        assert set(names_of(tmp_path / "kits/broker/server.pem")) == {"localhost", "127.0.0.1"}
        assert year.old_password_is_refused()
        broker = tmp_path / "kits" / "broker" / "state"
        eventually((broker / "mosquitto.log").exists)
        assert (broker / "mosquitto.log.1").stat().st_size > 0
        password = tmp_path / "kits" / "broker" / "passwords" / "coordinator"
        shutil.copy(password, tmp_path / "moved" / "broker.password")  # changed since the archive
        opened.type(Command("fleetledger coordinator serve --home moved &", ()))
        eventually(lambda: any("another one runs" in post["text"] for post in alerts.taken))
    with LedgerReader.open_read_only(ledger_path(tmp_path / "moved")) as ledger:
        assert ledger.size > 0
