"""Child brokers: found, started, restarted, told of new users, and gone with their parent."""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.transport import brokers
from fleetledger.transport.brokers import (
    Broker,
    EmbeddedBroker,
    MosquittoBroker,
    start_child_broker,
)
from fleetledger.transport.brokers.mosquitto import password_hash
from fleetledger.transport.errors import BrokerStartError, NotAuthorisedError
from fleetledger.transport.interface import IncomingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.worlds import PATIENCE, A, B, fresh_topics, next_of, send, started


@pytest.fixture(params=[pytest.param("mosquitto", marks=pytest.mark.broker), "amqtt"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    if request.param == "mosquitto":
        request.getfixturevalue("mosquitto")  # skips or fails where it is missing
    elif not EmbeddedBroker.is_installed():
        pytest.skip("amqtt is not installed")
    made = start_child_broker(tmp_path / "broker", [A], prefer=request.param)
    yield made
    made.stop()


def connection_to(broker: Broker, user: str, password: str | None = None) -> MqttConnection:
    return MqttConnection(
        MqttSettings(
            client_id=f"{user}.{secrets.token_hex(4)}",
            port=broker.port,
            user=user,
            password=password or broker.credentials(user)[1],
            reconnect_shortest_seconds=0.05,
        )
    )


def test_it_says_which_broker_runs_where_and_what_it_keeps(broker: Broker) -> None:
    assert broker.kind in broker.description.lower()
    assert f"127.0.0.1:{broker.port}" in broker.description
    assert "memory only" in broker.description
    assert any(digit in broker.description for digit in ("2.", "0.1"))


def test_a_user_admitted_later_can_connect(broker: Broker) -> None:
    with pytest.raises(BrokerStartError, match="unknown to this broker"):
        broker.credentials(B)

    broker.add_users([B])

    connection = connection_to(broker, B)
    try:
        started(connection)
    finally:
        connection.stop()
    assert broker.running


def test_the_connections_of_others_survive_a_new_user(broker: Broker) -> None:
    connection = started(connection_to(broker, A))
    try:
        broker.add_users([B])
        time.sleep(0.3)
        assert connection.connected
    finally:
        connection.stop()


def test_a_broker_started_again_keeps_its_port_and_its_users(broker: Broker) -> None:
    before = (broker.port, broker.credentials(A))
    broker.stop()
    broker.stop()

    broker.start()
    again = type(broker)(broker.directory, [A, B])

    assert (broker.port, broker.credentials(A)) == before
    assert again.credentials(A) == before[1]


def test_secrets_are_readable_by_their_owner_only(broker: Broker) -> None:
    assert broker.directory.stat().st_mode & 0o077 == 0
    for path in broker.directory.iterdir():
        if path.name != "broker.log":
            assert path.stat().st_mode & 0o077 == 0, path
    log = (broker.directory / "broker.log").read_text()
    assert broker.credentials(A)[1] not in log


def test_nobody_comes_in_without_a_password(broker: Broker) -> None:
    nobody = MqttConnection(MqttSettings(client_id="nobody", port=broker.port))
    nobody.start()
    try:
        with pytest.raises(NotAuthorisedError):
            nobody.wait_connected(PATIENCE)
    finally:
        nobody.stop()


def test_amqtt_refuses_a_client_id_that_belongs_to_another(tmp_path: Path) -> None:
    if not EmbeddedBroker.is_installed():
        pytest.skip("amqtt is not installed")
    with EmbeddedBroker(tmp_path, [A, B]) as broker:
        thief = MqttConnection(
            MqttSettings(
                client_id=f"{A}.x", port=broker.port, user=B, password=broker.credentials(B)[1]
            )
        )
        thief.start()
        try:
            with pytest.raises(NotAuthorisedError):
                thief.wait_connected(PATIENCE)
        finally:
            thief.stop()


def test_it_ends_when_its_parent_dies(broker: Broker, tmp_path: Path) -> None:
    name = type(broker).__name__
    program = (
        f"import sys, time; from pathlib import Path\n"
        f"from fleetledger.transport.brokers import {name}\n"
        f"broker = {name}(Path({str(tmp_path / 'child')!r}), ['dev-a']); broker.start()\n"
        "print(broker._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()

    end = time.monotonic() + PATIENCE
    while Path(f"/proc/{child}/cmdline").exists() and _is_running(child):
        assert time.monotonic() < end, "the child outlived its parent"
        time.sleep(0.05)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.broker
def test_a_persistent_mosquitto_remembers_over_a_restart(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    topic = fresh_topics().down(A, "desired")
    with MosquittoBroker(tmp_path / "kept", [A], persistent=True) as broker:
        assert "saves" in broker.description
        coordinator = started(connection_to(broker, "coordinator"))
        send(coordinator, topic, b"kept", retain=True)
        coordinator.stop()
        broker.stop()
        broker.start()
        device = started(connection_to(broker, A), topic)
        assert next_of(device, IncomingMessage).payload == b"kept"
        device.stop()


@pytest.mark.broker
def test_a_foreign_broker_at_a_fixed_port_is_not_taken_for_ours(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    fixed = MosquittoBroker(tmp_path / "fixed", [A], port=mosquitto.port)

    with pytest.raises(BrokerStartError, match=r"mosquitto did not start: .*in use"):
        fixed.start()


@pytest.mark.broker
def test_a_port_that_was_taken_meanwhile_is_given_up_for_a_free_one(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    broker = MosquittoBroker(tmp_path / "free", [A])
    broker.port = mosquitto.port

    with broker:
        assert broker.port != mosquitto.port


def test_a_missing_broker_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "find_mosquitto", lambda: None)
    monkeypatch.setattr(EmbeddedBroker, "is_installed", staticmethod(lambda: False))

    with pytest.raises(BrokerStartError, match=r"apt install mosquitto.*\[broker\]"):
        start_child_broker(tmp_path, [A])


def test_without_mosquitto_amqtt_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not EmbeddedBroker.is_installed():
        pytest.skip("amqtt is not installed")
    monkeypatch.setattr(brokers, "find_mosquitto", lambda: None)

    broker = start_child_broker(tmp_path, [A])
    broker.stop()

    assert broker.kind == "amqtt"


@pytest.mark.parametrize("name", ["coordinator", "a/b", "#", "", "a.b"])
def test_names_that_no_device_may_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValueError):
        MosquittoBroker(tmp_path, [name])


def test_password_hashes_are_salted_by_their_secret_and_in_mosquittos_format() -> None:
    first, second = password_hash("secret"), password_hash("another")

    assert first == password_hash("secret"), "a file that is written again stays as it is"
    assert first.split("$")[3] != second.split("$")[3]
    assert first.startswith("$7$101$")
    assert len(first.split("$")) == 5
