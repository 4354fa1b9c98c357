"""A fleet out of a table: kits are made, installed, and run against a broker that asks for TLS.

The broker takes nobody without a certificate of the fleet's CA.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.keys.entries import DeviceEnrolled
from fleetledger.simulator.engines.mqtt.processes import Children, fleetledger_command
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.interface import ConnectionProblem
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import TlsFiles
from tests.transport.standalone import free_port, running
from tests.transport.worlds import next_of

pytestmark = pytest.mark.broker
PATIENCE = 300.0


def say(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


class KitFleet:
    """Programs that were set up from kits alone."""

    def __init__(self, folder: Path, children: Children, *login: str) -> None:
        self.folder, self.children, self.login = folder, children, login
        self.home, self.kits = folder / "coordinator", folder / "kits"
        self.said = ""
        self.port, self.local_port = free_port("127.0.0.1"), free_port("127.0.0.1")
        words = ("--broker-host", "localhost", "--broker-port", str(self.port), "--no-learning")
        words += ("--password-file", "broker.password") if login else ()
        say("coordinator", "init", "--fleet", "mill", *words, "--home", str(self.home))

    def provision(self, devices: int) -> float:
        """Make so many kits; return the seconds that took."""
        table = self.folder / "devices.csv"
        rows = (f"camera-{number},orchard-{number % 7}" for number in range(devices))
        table.write_text("name,site\n" + "\n".join(rows) + "\n")
        began = time.monotonic()
        words = (
            "provision",
            str(table),
            "--out",
            str(self.kits),
            "--local-port",
            str(self.local_port),
            "--home",
            str(self.home),
            *self.login,
        )
        self.said = say("coordinator", *words, "--home", str(self.home))
        assert "made " in self.said
        return time.monotonic() - began

    def start_coordinator(self) -> None:
        self._start("coordinator", "coordinator", "serve", "--home", str(self.home))

    def start_device(self, number: int) -> None:
        """Install a kit, and run the agent that it makes."""
        name = f"camera-{number}"
        home = str(self.folder / name)
        say("agent", "install", str(self.kits / "devices" / name), "--yes", "--home", home)
        self._start(name, "agent", "run", "--home", home)

    def stop_device(self, number: int) -> None:
        self.children.end([f"camera-{number}"])

    def _start(self, name: str, *words: str) -> None:
        self.children.start(name, fleetledger_command(*words))

    def wait_until_online(self, devices: int) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            online = [row for row in self.listed() if row["state"] == "online"]
            if len(online) == devices == self.enrolled():
                return
            time.sleep(0.5)
        raise AssertionError(f"{self.listed()}, {self.enrolled()} enrolled")

    def listed(self) -> list[dict[str, str]]:
        said = say("device", "list", "--json", "--home", str(self.home))
        found: list[dict[str, str]] = json.loads(said)["devices"]
        return found

    def enrolled(self) -> int:
        with LedgerReader.open_read_only(ledger_path(self.home)) as ledger:
            return len(list(ledger.find(DeviceEnrolled)))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[KitFleet]:
    (tmp_path / "logs").mkdir()
    with Children(tmp_path / "logs") as children:
        yield KitFleet(tmp_path, children)


@pytest.mark.parametrize(
    ("provisioned", "run"), [(5, 3), pytest.param(200, 20, marks=pytest.mark.nightly)]
)
def test_devices_run_from_their_kits(
    mosquitto: MosquittoBroker, fleet: KitFleet, provisioned: int, run: int
) -> None:
    seconds = fleet.provision(provisioned)
    with running(fleet.kits / "broker", fleet.port):
        fleet.start_coordinator()
        began = time.monotonic()
        for number in range(run):
            fleet.start_device(number)
        fleet.wait_until_online(run)
        print(f"{provisioned} kits in {seconds:.1f} s; {run} online after", end=" ")  # noqa: T201
        print(f"{time.monotonic() - began:.1f} s")  # noqa: T201
        fleet.children.stop()
    assert [row["state"] for row in fleet.listed()].count("never seen") == provisioned - run


def test_devices_join_a_fleet_that_is_served(mosquitto: MosquittoBroker, fleet: KitFleet) -> None:
    fleet.provision(1)
    with running(fleet.kits / "broker", fleet.port):
        fleet.start_coordinator()
        fleet.start_device(0)
        fleet.wait_until_online(1)
        fleet.provision(9)
        fleet.start_device(8)
        fleet.wait_until_online(2)
        fleet.children.stop()
    assert len(fleet.listed()) == 9


@pytest.mark.parametrize("login", [(), ("--login", "password")])
def test_a_retired_device_that_is_admitted_again_works_with_a_new_kit(
    mosquitto: MosquittoBroker, tmp_path: Path, login: tuple[str, ...]
) -> None:
    (tmp_path / "logs").mkdir()
    with Children(tmp_path / "logs") as children:
        fleet = KitFleet(tmp_path, children, *login)
        fleet.provision(1)
        kit = fleet.kits / "devices" / "camera-0"
        with running(fleet.kits / "broker", fleet.port):
            fleet.start_coordinator()
            fleet.start_device(0)
            fleet.wait_until_online(1)
            shutil.rmtree(kit)
            fleet.provision(1)
            assert "no kit for camera-0: enrolled already" in fleet.said
            at = ("--home", str(fleet.home))
            say("device", "retire", "camera-0", *at)
            fleet.stop_device(0)
            fleet.provision(1)
            assert "no kit for camera-0, which is retired" in fleet.said
            told = say("coordinator", "admit", "camera-0", *at)
            assert f"coordinator provision TABLE --out {fleet.kits}" in told
            fleet.provision(1)
            assert "camera-0: has its key, so the kit has no token" in fleet.said
            assert not (kit / "token").exists()
            fleet.start_device(0)
            fleet.wait_until_online(1)
            assert fleet.enrolled() == 1
            children.stop()


def test_the_broker_takes_nobody_without_a_certificate_of_the_fleet(
    mosquitto: MosquittoBroker, fleet: KitFleet
) -> None:
    fleet.provision(2)
    kit = fleet.kits / "devices" / "camera-0"
    with running(fleet.kits / "broker", fleet.port):
        settings = MqttSettings(
            client_id="camera-0.control",
            host="localhost",
            port=fleet.port,
            user="camera-0",
            password="guessed",
            tls=TlsFiles(kit / "ca.pem"),
        )
        connection = MqttConnection(settings)
        try:
            connection.start()
            assert isinstance(next_of(connection, ConnectionProblem).error, Exception)
            assert not connection.connected
        finally:
            connection.stop()
