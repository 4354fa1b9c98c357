"""Coordinator, proxy and agent reach their broker over TLS, by what their settings files say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator import settings as coordinator_settings
from fleetledger.coordinator.program.broker import mqtt_settings
from fleetledger.coordinator.proxy import settings as proxy_settings
from fleetledger.coordinator.proxy.program import mqtt_connect as proxy_connect
from fleetledger.coordinator.settings import CoordinatorBrokerSettings, CoordinatorSettings
from fleetledger.device_agent.cli.doctor import examine
from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.program.main import mqtt_connect as agent_connect
from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.folder import BrokerFolder, write_broker_folder
from fleetledger.transport.brokers.mosquitto_configuration import ServerCertificates
from fleetledger.transport.errors import TlsError
from fleetledger.transport.interface import Connection
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.tls import TlsSettings
from tests.transport.certificates import Authority
from tests.transport.standalone import free_port, running
from tests.transport.worlds import started

FLEET, DEVICE = FleetId("mill"), DeviceId("camera-1")


def tls_of(user: str) -> TlsSettings:
    """Return the section of a program whose files lie in its home."""
    return TlsSettings(
        ca_file=Path("ca.pem"), certificate_file=Path(f"{user}.pem"), key_file=Path(f"{user}.key")
    )


@pytest.fixture
def home(tmp_path: Path) -> Authority:
    """The home of all three programs, with their certificates."""
    authority = Authority(tmp_path)
    for user in (COORDINATOR, PROXY, DEVICE):
        authority.user(user)
    return authority


@pytest.fixture
def port(home: Authority, mosquitto: MosquittoBroker, tmp_path: Path) -> Iterator[int]:
    """The port of a broker that wants to see certificates."""
    server = home.server("localhost")
    files = ServerCertificates(server, server.with_suffix(".key"), home.ca_file)
    folder, chosen = tmp_path / "broker", free_port("127.0.0.1")
    write_broker_folder(BrokerFolder(folder, folder, chosen, "+", (DEVICE,), certificates=files))
    with running(folder, chosen):
        yield chosen


def coordinators(home: Path, port: int, user: str = COORDINATOR) -> Connection:
    broker = CoordinatorBrokerSettings(host="localhost", port=port, tls=tls_of(user))
    coordinator_settings.write_new(home, CoordinatorSettings(fleet=FLEET, broker=broker))
    found = coordinator_settings.load(home)
    assert found.broker == broker
    return MqttConnection(mqtt_settings(home, found, role="control"))


def proxys(home: Path, port: int, user: str = PROXY) -> Connection:
    broker = proxy_settings.ProxyBrokerSettings(host="localhost", port=port, tls=tls_of(user))
    proxy_settings.write_new(home, proxy_settings.ProxyHomeSettings(fleet=FLEET, broker=broker))
    found = proxy_settings.load(home)
    assert found.broker == broker
    return proxy_connect(home, found)("control")


def agents(home: Path, port: int, user: str = DEVICE) -> Connection:
    write_home(home, NewHome(DEVICE, FLEET, host="localhost", port=port, tls=tls_of(user)))
    return agent_connect(AgentHome.open(home))("control", None)


PROGRAMS = [coordinators, proxys, agents]


@pytest.mark.broker
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_connects_by_its_certificate(program: Any, home: Authority, port: int) -> None:
    connection = program(home.folder, port)
    try:
        started(connection)
    finally:
        connection.stop()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_certificate_of_somebody_else_is_refused_at_the_start(
    program: Any, home: Authority
) -> None:
    home.user("stranger")
    with pytest.raises(TlsError, match=r"certificate_file: .*its common name is 'stranger'"):
        program(home.folder, 8883, "stranger")


@pytest.mark.broker
def test_the_doctor_of_an_agent_tells_of_a_wrong_ca(
    home: Authority, port: int, tmp_path: Path
) -> None:
    agents(home.folder, port)
    home.ca_file.write_bytes(Authority(tmp_path / "other").ca_file.read_bytes())

    told = [finding for finding in examine(home.folder) if finding.about.startswith("broker ")]

    assert [finding.verdict for finding in told] == ["missing"]
    assert "broker.tls.ca_file" in told[0].text
