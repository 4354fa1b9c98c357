"""The broker's password is read at each connection, so a renewed one needs no restart."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.runtime.private_file import write_private
from fleetledger.transport.brokers.mosquitto import MosquittoBroker
from fleetledger.transport.errors import NotAuthorisedError, PasswordFileError
from fleetledger.transport.interface import Connected, ConnectionProblem, Disconnected
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.worlds import PATIENCE, A

pytestmark = pytest.mark.broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MosquittoBroker]:
    with MosquittoBroker(tmp_path / "broker", [A]) as started:
        yield started


@pytest.fixture
def connection(broker: MosquittoBroker, tmp_path: Path) -> Iterator[MqttConnection]:
    write_private(tmp_path / "password", broker.credentials(A)[1].encode())
    settings = MqttSettings(
        client_id=A,
        port=broker.port,
        user=A,
        password=tmp_path / "password",
        reconnect_shortest_seconds=0.02,
        reconnect_longest_seconds=0.2,
    )
    made = MqttConnection(settings)
    made.start()
    yield made
    made.stop()


def until(connection: MqttConnection, kind: type) -> object:
    for _ in range(1000):
        event = connection.next_event(PATIENCE)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def renew(broker: MosquittoBroker, password: str) -> None:
    """Give the user another password at the broker, which is started again for it."""
    broker.stop()
    secrets = broker.directory / "secrets.json"
    secrets.write_text(json.dumps({**json.loads(secrets.read_text()), A: password}))
    broker._secrets[A] = password
    broker.start()


def test_a_password_that_is_renewed_at_both_ends_lets_the_same_connection_in_again(
    broker: MosquittoBroker, connection: MqttConnection, tmp_path: Path
) -> None:
    until(connection, Connected)
    renew(broker, "another")
    until(connection, Disconnected)
    told = until(connection, ConnectionProblem)
    while not isinstance(told.error, NotAuthorisedError):  # the broker was away for a moment
        told = until(connection, ConnectionProblem)
    assert f"user '{A}'" in str(told.error)
    assert f"put the password that the broker knows into {tmp_path / 'password'}" in str(told.error)
    write_private(tmp_path / "password", b"another\n")
    until(connection, Connected)


def test_a_password_file_that_is_gone_is_told_and_waited_for(
    broker: MosquittoBroker, connection: MqttConnection, tmp_path: Path
) -> None:
    until(connection, Connected)
    (tmp_path / "password").unlink()
    broker.stop()
    broker.start()
    told = until(connection, ConnectionProblem)
    while not isinstance(told.error, PasswordFileError):
        told = until(connection, ConnectionProblem)
    assert "broker.password_file" in str(told.error)
    write_private(tmp_path / "password", broker.credentials(A)[1].encode())
    until(connection, Connected)
