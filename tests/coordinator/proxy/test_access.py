"""A real Mosquitto with the access file of docs/proxy.md: who reaches whom, tried out in full."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.transport.access import mosquitto_access_file
from fleetledger.transport.brokers import MosquittoBroker, find_mosquitto
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings

pytestmark = pytest.mark.broker

ONE, OTHER = "dev-a", "dev-b"
USERS = (COORDINATOR, PROXY, ONE, OTHER)
MATRIX: dict[str, tuple[set[str], set[str]]] = {
    # topic: (who may publish, who may receive)
    "up/dev-a/msg": ({ONE, COORDINATOR}, {COORDINATOR}),
    "down/dev-a/rcpt": ({COORDINATOR}, {COORDINATOR, ONE}),
    "all/state": ({COORDINATOR}, set(USERS)),
    "down/proxy/assignment": ({COORDINATOR}, {COORDINATOR, PROXY}),
    "up/proxy/msg": ({COORDINATOR, PROXY}, {COORDINATOR}),
    "proxy/up/dev-a/msg": ({ONE}, {PROXY}),
    "proxy/up/dev-a/blk": ({ONE}, {PROXY}),
    "proxy/down/dev-a/rcpt": ({PROXY}, {ONE}),
    "proxy/down/dev-a/req": ({PROXY}, {ONE}),
    # No place on the proxy's branch is the coordinator's, though rules by name would make one.
    "proxy/up/coordinator/msg": (set(), {PROXY}),
    "proxy/down/coordinator/rcpt": ({PROXY}, set()),
}
ROOT = "fleetledger/1/mill"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoBroker]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed: `apt install mosquitto`")
    folder = tmp_path_factory.mktemp("mosquitto-with-a-proxy")
    with MosquittoBroker(folder, (PROXY, ONE, OTHER)) as started:
        yield started


def _connect(broker: MosquittoBroker, user: str) -> MqttConnection:
    name, secret = broker.credentials(user)
    connection = MqttConnection(
        MqttSettings(f"{user}.test", broker.host, broker.port, name, secret)
    )
    connection.subscribe(*(f"{ROOT}/{topic}" for topic in MATRIX), f"{ROOT}/#")
    connection.start()
    connection.wait_connected(300)
    return connection


def _arrived(connections: dict[str, MqttConnection]) -> dict[str, set[tuple[str, str]]]:
    """Return which (user, topic) of a publisher came to whom, when nothing has come for a while."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 1.5:
        for user, connection in connections.items():
            event = connection.next_event(0.01)
            if isinstance(event, IncomingMessage):
                topic = event.topic.removeprefix(f"{ROOT}/")
                found[user].add((event.payload.decode(), topic))
                connection.acknowledge(event)
                quiet_since = time.monotonic()
    return found


def test_everybody_reaches_what_is_theirs_and_nothing_else(broker: MosquittoBroker) -> None:
    connections = {user: _connect(broker, user) for user in USERS}
    _arrived(connections)  # subscriptions are answered
    for user, connection in connections.items():
        for topic in MATRIX:
            connection.publish(OutgoingMessage(f"{ROOT}/{topic}", user.encode()))
    found = _arrived(connections)
    for connection in connections.values():
        connection.stop()
    for reader in USERS:
        expected = {
            (writer, topic)
            for topic, (writers, readers) in MATRIX.items()
            if reader in readers
            for writer in writers
        }
        assert found[reader] == expected, reader


def test_the_page_about_the_proxy_shows_the_rules_that_were_tried() -> None:
    page = Path(__file__).parents[3] / "docs" / "proxy.md"
    assert mosquitto_access_file() in page.read_text(encoding="utf-8")
