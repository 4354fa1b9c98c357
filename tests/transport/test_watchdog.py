"""A connection whose network thread dies or hangs, or whose broker falls silent, is made anew."""

import ctypes
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.folder import BrokerFolder, write_broker_folder
from fleetledger.transport.interface import Connected, Disconnected, IncomingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.standalone import free_port, running
from tests.transport.worlds import (
    PATIENCE,
    A,
    fresh_topics,
    next_of,
    payloads,
    send,
    started,
    until_heard,
)

pytestmark = pytest.mark.broker
Connect = Callable[..., MqttConnection]


class KilledError(Exception):
    """Ends a network thread."""


@pytest.fixture
def connect(mosquitto: MosquittoBroker) -> Iterator[Connect]:
    made = []

    def make(user: str, **options: Any) -> MqttConnection:
        settings = MqttSettings(
            **{
                "client_id": f"{user}.{secrets.token_hex(4)}",
                "port": mosquitto.port,
                "user": user,
                "password": mosquitto.credentials(user)[1],
                "reconnect_shortest_seconds": 0.05,
                "reconnect_longest_seconds": 0.2,
                **options,
            }
        )
        made.append(MqttConnection(settings))
        return made[-1]

    yield make
    for connection in made:
        connection.stop()


def network_threads(connection: MqttConnection) -> list[threading.Thread]:
    name = f"paho-mqtt-client-{connection.settings.client_id}"
    return [thread for thread in threading.enumerate() if thread.name == name]


def raise_in(thread: threading.Thread) -> None:
    """Raise `KilledError` where the thread is, which its own code does not expect."""
    assert thread.ident is not None
    reached = ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(KilledError)
    )
    assert reached == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("version", [5, 4])
def test_a_network_thread_that_died_is_replaced_and_nothing_is_lost(
    connect: Connect, version: int
) -> None:
    topic = fresh_topics().down(A, "rcpt")
    device = connect(A, versions=(version,))
    started(device, topic)
    next_of(device, Connected)
    coordinator = started(connect(COORDINATOR))
    until_heard(device, coordinator, topic)
    (thread,) = network_threads(device)

    raise_in(thread)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    send(coordinator, topic, b"sent meanwhile")

    assert next_of(device, Disconnected).reason == "the network thread has ended"
    assert next_of(device, Connected).session_present == (version == 5)
    if version == 5:
        assert payloads(device, 1) == [b"sent meanwhile"]
    assert len(network_threads(device)) == 1


def test_a_network_thread_that_hangs_is_left_behind_and_nothing_is_lost(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic, free, received = (
        fresh_topics().down(A, "rcpt"),
        threading.Event(),
        MqttConnection.received,
    )

    def hanging(self: MqttConnection, message: IncomingMessage) -> None:
        if not free.is_set() and message.payload == b"first":
            free.wait(PATIENCE)
            time.sleep(0.1)
        received(self, message)

    monkeypatch.setattr(MqttConnection, "received", hanging)
    device = connect(A, keepalive_seconds=1)
    started(device, topic)
    next_of(device, Connected)
    coordinator = started(connect(COORDINATOR))
    until_heard(device, coordinator, topic)
    (thread,) = network_threads(device)

    send(coordinator, topic, b"first")
    with caplog.at_level(logging.ERROR):
        reason = next_of(device, Disconnected).reason
    assert reason.startswith("the network thread has not moved for")
    assert "left behind" in caplog.text
    free.set()
    thread.join(PATIENCE)
    next_of(device, Connected)
    send(coordinator, topic, b"second")

    got: list[bytes] = []
    while b"second" not in got:
        got += payloads(device, 1)
    assert b"first" in got  # once or twice: it was not acknowledged
    assert device.connected
    assert len(network_threads(device)) == 1


def test_a_broker_that_falls_silent_is_noticed(tmp_path: Path, mosquitto: MosquittoBroker) -> None:
    """It keeps the connection open, and says nothing: only the clock tells."""
    folder, port = tmp_path / "broker", free_port("127.0.0.1")
    write_broker_folder(BrokerFolder(folder, folder, port, "+", (A,)))
    with running(folder, port) as broker:
        device = MqttConnection(
            MqttSettings(A, port=port, user=A, password=broker.secret(A), keepalive_seconds=1)
        )
        try:
            started(device)
            next_of(device, Connected)
            broker.freeze()
            next_of(device, Disconnected)
            assert not device.connected
        finally:
            device.stop()


def test_a_quiet_connection_is_left_alone(connect: Connect) -> None:
    device = started(connect(A, keepalive_seconds=1))
    next_of(device, Connected)
    assert device.next_event(5.0) is None
    assert device.connected
