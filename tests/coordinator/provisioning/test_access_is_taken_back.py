"""A device that is shut out gets in at the broker no more; open sessions end, or are mute."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.program.broker_folders import known_brokers
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.errors import TransportError
from fleetledger.transport.interface import Connected, Disconnected
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import TlsFiles
from tests.transport.standalone import RunningBroker, free_port, running
from tests.transport.worlds import PATIENCE, messages, next_of, rest, send, started, until_heard

A, B = DeviceId("camera-a"), DeviceId("camera-b")
TOPICS = FleetTopics(FleetId("mill"))


def say(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a coordinator that admitted two devices, which have no keys."""
    folder, port = tmp_path / "home", str(free_port("127.0.0.1"))
    words = ("--broker-host", "localhost", "--broker-port", port, "--trial")
    say("coordinator", "init", "--fleet", "mill", *words, "--home", str(folder))
    for device in (A, B):
        say("coordinator", "admit", device, "--home", str(folder))
    return folder


def write(home: Path, out: Path) -> None:
    words = ("--out", str(out), "--local-port", "0", "--home", str(home))
    say("coordinator", "broker-config", *words)


def port_of(home: Path) -> int:
    lines = (home / "coordinator.toml").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("port = ")).split()[-1])


def by_password(broker: RunningBroker, user: str, secret: str | None = None) -> MqttConnection:
    return MqttConnection(
        MqttSettings(
            client_id=fresh_client_id(user, "test"),
            port=broker.port,
            user=user,
            password=secret or broker.secret(user),
            reconnect_shortest_seconds=0.05,
            reconnect_longest_seconds=0.2,
        )
    )


def shut(one: MqttConnection) -> bool:
    """Return whether the broker lets a fresh connection in no more."""
    one.start()
    try:
        one.wait_connected(3)
    except TransportError:
        return True
    finally:
        one.stop()
    return False


@pytest.mark.broker
def test_revoking_ends_the_session_of_a_password_and_lets_it_in_no_more(
    home: Path, tmp_path: Path, mosquitto: MosquittoBroker
) -> None:
    out = tmp_path / "broker"
    write(home, out)
    with running(out, port_of(home)) as broker:
        secret = broker.secret(A)
        stolen, other = started(by_password(broker, A)), started(by_password(broker, B))
        next_of(other, Connected)

        told = say("coordinator", "revoke", A, "--home", str(home))

        assert "the broker read them" in told
        next_of(stolen, Disconnected)
        stolen.stop()
        assert shut(by_password(broker, A, secret))
        assert not (out / "passwords" / A).exists()
        assert f"user {A}\ntopic deny #" in (out / "acl_file").read_text()
        assert not [event for event in rest(other) if isinstance(event, Disconnected)]
        other.stop()

        say("coordinator", "enrol", A, "--home", str(home))
        write(home, out)
        broker.reload()
        assert broker.secret(A) != secret
        assert shut(by_password(broker, A, secret))
        started(by_password(broker, A)).stop()


@pytest.mark.broker
def test_retiring_takes_access_back_too_and_admitting_gives_it_anew(
    home: Path, tmp_path: Path, mosquitto: MosquittoBroker
) -> None:
    out = tmp_path / "broker"
    write(home, out)
    with running(out, port_of(home)) as broker:
        secret = broker.secret(A)
        say("device", "retire", A, "--home", str(home))
        assert shut(by_password(broker, A, secret))

        told = say("coordinator", "admit", A, "--home", str(home))

        assert "let it in again, and the broker read them" in told
        assert f"{A} has a new password, in {out / 'passwords' / A}" in told
        assert shut(by_password(broker, A, secret))
        started(by_password(broker, A)).stop()
        assert "broker" not in say("coordinator", "admit", A, "--home", str(home))


def by_certificate(kit: Path, port: int) -> MqttConnection:
    user = kit.name
    files = TlsFiles(kit / "ca.pem", kit / "device.pem", kit / "device.key")
    return MqttConnection(
        MqttSettings(
            client_id=fresh_client_id(user, "test"),
            host="localhost",
            port=port,
            user=user,
            tls=files,
            reconnect_shortest_seconds=0.05,
        )
    )


@pytest.fixture
def kits(home: Path, tmp_path: Path) -> Path:
    """Kits that log in by certificate, with their own copies of what devices were given."""
    table, out = tmp_path / "devices.csv", tmp_path / "kits"
    table.write_text(f"name\n{A}\n{B}\n")
    words = (str(table), "--out", str(out), "--local-port", str(free_port("127.0.0.1")))
    say("coordinator", "provision", *words, "--home", str(home))
    (out / "devices").rename(tmp_path / "given")
    (out / "devices").mkdir()
    return out


@pytest.mark.broker
def test_a_certificate_is_taken_back_and_its_open_session_may_do_nothing(
    home: Path, kits: Path, tmp_path: Path, mosquitto: MosquittoBroker
) -> None:
    given, port = tmp_path / "given", port_of(home)
    (known,) = known_brokers(home)
    assert known.local_port is not None
    with running(kits / "broker", port) as broker:
        secret = (home / "broker.password").read_text().strip()
        settings = MqttSettings(
            client_id=fresh_client_id(COORDINATOR, "test"),
            port=known.local_port,
            user=COORDINATOR,
            password=secret,
        )
        leader = started(MqttConnection(settings), *TOPICS.from_every_device("msg"))
        stolen, other = (started(by_certificate(given / name, port)) for name in (A, B))
        until_heard(leader, stolen, TOPICS.up(A, "msg"))

        for name in (A, B):  # a second list is read as well as the first
            told = say("coordinator", "revoke", name, "--home", str(home))
            assert "crl.pem" in told
            assert "may do nothing any more" in told
            assert until_shut(given / name, port), f"{name} is let in: {broker.log()}"

        send(stolen, TOPICS.up(A, "msg"), b"from the stolen session")
        assert b"from the stolen session" not in messages(rest(leader))
        for one in (leader, stolen, other):
            one.stop()


def until_shut(kit: Path, port: int) -> bool:
    """Return whether a certificate is refused, once the broker has read its files again."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if shut(by_certificate(kit, port)):
            return True
    return False


def test_of_a_broker_elsewhere_it_is_told_what_to_copy_and_the_command(
    home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "broker"
    words = ("--out", str(out), "--place", "/srv/mill", "--home", str(home))
    say("coordinator", "broker-config", *words)
    told = say("coordinator", "revoke", A, "--home", str(home)).replace("\n", " ")
    assert f"copy password_file, acl_file of {out} to /srv/mill" in told
    assert "systemctl reload mosquitto" in told


def test_a_process_that_is_no_mosquitto_is_sent_nothing(home: Path, tmp_path: Path) -> None:
    out, got = tmp_path / "broker", []
    write(home, out)
    before = signal.signal(signal.SIGHUP, lambda *_: got.append(1))
    try:
        (out / "state" / "mosquitto.pid").write_text(f"{os.getpid()}\n")
        told = say("coordinator", "revoke", A, "--home", str(home))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert got == []
    assert "kill -HUP" in told
