"""`fleetledger coordinator broker-config`, run as a command, and a Mosquitto on what it wrote."""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import coordinator as cli
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    write_new,
)
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.errors import BrokerFilesError, NotAuthorisedError
from fleetledger.transport.interface import Connection, IncomingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.standalone import RunningBroker, free_port, running
from tests.transport.worlds import PATIENCE, next_of, send, started, until_heard

DEVICES = ("dev-a", "dev-b")
TOPICS = FleetTopics(FleetId("mill"))
A, B = DeviceId("dev-a"), DeviceId("dev-b")


def fleetledger(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a coordinator that admitted `DEVICES`."""
    folder = tmp_path / "home"
    broker = CoordinatorBrokerSettings(port=free_port("127.0.0.1"))
    write_new(folder, CoordinatorSettings(fleet=TOPICS.fleet, broker=broker))
    for device in DEVICES:
        fleetledger("admit", device, "--home", str(folder))
    return folder


def write(home: Path, *arguments: str) -> Path:
    out = home.parent / "broker"
    given = ("--out", str(out), "--home", str(home), *arguments)
    if "--local-port" not in given:
        given = (*given, "--local-port", "0")  # the next one may be another test's
    fleetledger("broker-config", *given)
    return out


def port_of(home: Path) -> int:
    return cli.settings_module.load(home).broker.port


def connection(broker: RunningBroker, user: str, password: str | None = None) -> Connection:
    return MqttConnection(
        MqttSettings(
            client_id=f"{user}.{secrets.token_hex(4)}",
            port=broker.port,
            user=user,
            password=password or broker.secret(user),
            reconnect_shortest_seconds=0.05,
        )
    )


@pytest.mark.broker
def test_a_mosquitto_on_that_folder_carries_the_fleets_topics(
    home: Path, mosquitto: MosquittoBroker
) -> None:
    with running(write(home), port_of(home)) as broker:
        coordinator = started(connection(broker, COORDINATOR), *TOPICS.from_every_device("msg"))
        proxies = FleetTopics(TOPICS.fleet, "proxy")
        proxy = started(connection(broker, "proxy"), *proxies.from_every_device("msg"))
        device = started(connection(broker, A), *TOPICS.to_device(A, "rcpt"))
        until_heard(coordinator, device, TOPICS.up(A, "msg"))
        until_heard(proxy, device, proxies.up(A, "msg"))
        until_heard(device, coordinator, TOPICS.down(A, "rcpt"))

        send(device, TOPICS.up(A, "msg"), b"a contribution")
        send(device, proxies.up(A, "msg"), b"gradients")
        send(coordinator, TOPICS.down(A, "rcpt"), b"a receipt")

        assert next_of(coordinator, IncomingMessage).payload == b"a contribution"
        assert next_of(proxy, IncomingMessage).payload == b"gradients"
        assert next_of(device, IncomingMessage).payload == b"a receipt"
        for one in (coordinator, proxy, device):
            one.stop()


@pytest.mark.broker
def test_that_mosquitto_keeps_what_was_retained_over_a_restart(
    home: Path, mosquitto: MosquittoBroker
) -> None:
    topic = TOPICS.down(A, "desired")
    with running(write(home), port_of(home)) as broker:
        coordinator = started(connection(broker, COORDINATOR))
        send(coordinator, topic, b"version 7", retain=True)
        coordinator.stop()

        broker.stop()
        assert b"version 7" in (broker.folder / "state" / "mosquitto.db").read_bytes()
        broker.start_again()

        device = started(connection(broker, A), topic)
        assert next_of(device, IncomingMessage).payload == b"version 7"
        device.stop()


@pytest.mark.broker
def test_a_device_admitted_later_comes_in_after_a_reload_and_others_keep_their_secrets(
    home: Path, mosquitto: MosquittoBroker
) -> None:
    with running(write(home), port_of(home)) as broker:
        before = broker.secret(A)
        fleetledger("admit", "dev-late", "--home", str(home))
        write(home)
        broker.reload()

        assert broker.secret(A) == before
        for user in (A, "dev-late"):
            one = started(connection(broker, user))
            one.stop()
        thief = connection(broker, B, password=before)
        thief.start()
        with pytest.raises(NotAuthorisedError, match="'dev-b'"):
            thief.wait_connected(PATIENCE)
        thief.stop()


def test_every_user_has_a_secret_of_256_bits_that_others_cannot_read(home: Path) -> None:
    out = write(home)
    found = {path.name: path.read_text().strip() for path in (out / "passwords").iterdir()}

    assert set(found) == {"coordinator", "proxy", *DEVICES}
    assert len(set(found.values())) == len(found)
    assert all(len(bytes.fromhex(secret)) == 32 for secret in found.values())
    for path in out.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    hashed = (out / "password_file").read_text()
    assert not any(secret in hashed for secret in found.values())


def test_without_certificates_it_listens_on_its_own_host_only(home: Path) -> None:
    text = (write(home) / "mosquitto.conf").read_text().splitlines()
    assert [line for line in text if line.startswith("listener")] == [
        f"listener {port_of(home)} 127.0.0.1"
    ]
    assert "max_connections 400000" in text
    assert "allow_anonymous false" in text


def test_paths_are_those_on_the_brokers_host(home: Path) -> None:
    out = write(
        home,
        "--place=/etc/mosquitto/mill",
        "--certificate-file=/etc/tls/broker.pem",
        "--key-file=/etc/tls/broker.key",
    )
    lines = (out / "mosquitto.conf").read_text().splitlines()

    assert f"listener {port_of(home)}" in lines
    assert "certfile /etc/tls/broker.pem" in lines
    assert "password_file /etc/mosquitto/mill/password_file" in lines
    assert "persistence_location /etc/mosquitto/mill/state/" in lines
    assert not [line for line in lines if str(out) in line]


def test_it_says_what_to_copy_where(home: Path) -> None:
    told = fleetledger(
        "broker-config", "--out", str(home / "b"), "--place", "/srv/b", "--home", str(home)
    )
    assert "a Mosquitto for 2 devices" in told
    assert f"Copy {home / 'b'} without passwords/ to /srv/b" in told
    assert 'password_file = "broker.password"' in told
    assert "listens on its own host alone" in told


def test_with_certificates_of_users_there_are_no_passwords(home: Path) -> None:
    names = ("certificate", "key", "client-ca")
    out = write(home, *(f"--{name}-file=/etc/tls/{name}" for name in names))
    lines = (out / "mosquitto.conf").read_text().splitlines()

    assert "use_identity_as_username true" in lines
    assert "require_certificate true" in lines
    assert not [line for line in lines if line.startswith("password_file")]
    assert not (out / "passwords").exists()


@pytest.mark.parametrize(
    ("given", "missing"),
    [("--key-file", "certificate-file"), ("--certificate-file", "key-file")],
)
def test_half_of_what_tls_needs_is_refused(home: Path, given: str, missing: str) -> None:
    with pytest.raises(BrokerFilesError, match=f"--{missing}: is missing"):
        write(home, given, "/etc/tls/file")


def test_a_broken_secret_is_named_with_the_way_out(home: Path) -> None:
    (write(home) / "passwords" / A).write_text("")
    with pytest.raises(BrokerFilesError, match=r"dev-a: 0 lines.*delete the file"):
        write(home)


def test_another_user_name_of_the_coordinator_is_refused(tmp_path: Path) -> None:
    broker = CoordinatorBrokerSettings(username=DeviceId("boss"))
    write_new(tmp_path, CoordinatorSettings(fleet=TOPICS.fleet, broker=broker))
    with pytest.raises(SettingsError, match=r"broker.username: 'boss'.*'coordinator'"):
        fleetledger("broker-config", "--out", str(tmp_path / "b"), "--home", str(tmp_path))


def test_the_coordinator_has_a_listener_of_its_own_where_the_broker_is_here(home: Path) -> None:
    port = port_of(home)
    told = fleetledger("broker-config", "--out", str(home / "b"), "--home", str(home))
    text = (home / "b" / "mosquitto.conf").read_text()
    assert f"listener {port + 1} 127.0.0.1\nmax_connections 64\n" in text
    assert f"[broker.local]   port = {port + 1}   password_file" in told
    away = write(home, "--place", "/srv/b", "--local-port", str(port + 7))
    assert f"listener {port + 7} 127.0.0.1" in (away / "mosquitto.conf").read_text()
    fleetledger("broker-config", "--out", str(away), "--place", "/srv/b", "--home", str(home))
    assert (away / "mosquitto.conf").read_text().count("listener ") == 1


def test_a_broker_started_by_hand_runs_as_who_wrote_the_folder_and_logs_to_a_file(
    home: Path,
) -> None:
    text = (write(home) / "mosquitto.conf").read_text().splitlines()
    assert f"user {pwd.getpwuid(os.geteuid()).pw_name}" in text
    assert f"log_dest file {home.parent / 'broker' / 'state' / 'mosquitto.log'}" in text
    assert "log_dest stderr" not in text


def test_a_broker_at_another_place_logs_to_its_service_and_has_the_user_of_that(home: Path) -> None:
    text = (write(home, "--place", "/srv/b") / "mosquitto.conf").read_text().splitlines()
    assert "log_dest stderr" in text
    assert not [line for line in text if line.startswith(("user ", "log_dest file"))]
