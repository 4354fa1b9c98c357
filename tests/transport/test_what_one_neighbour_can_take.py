"""A Mosquitto by `broker-config`, filled by one device or by a neighbour without a password."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import FleetId
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.folder import SERVICE_LIMITS, BrokerFolder, write_broker_folder
from fleetledger.transport.brokers.mosquitto_configuration import MOST_CONNECTIONS
from fleetledger.transport.errors import TransportError
from fleetledger.transport.interface import IncomingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.promises.hostile import connect_packet
from tests.transport.standalone import RunningBroker, free_port, running
from tests.transport.worlds import PATIENCE, A, B, send, started, until_heard

pytestmark = pytest.mark.broker
TOPICS = FleetTopics(FleetId("mill"))
MIB = 1024 * 1024
FEW = 100
"""Connections of the devices' listener, where a test fills it."""


@pytest.fixture
def folder(mosquitto: MosquittoBroker, tmp_path: Path) -> BrokerFolder:
    """A folder as an operator has it, with a listener for the coordinator alone."""
    ports = free_port("127.0.0.1"), free_port("127.0.0.1")
    made = BrokerFolder(
        tmp_path / "broker", tmp_path / "broker", ports[0], "mill", (A, B), local_port=ports[1]
    )
    write_broker_folder(made)
    return made


@contextmanager
def many_files(number: int) -> Iterator[None]:
    """Let this process and its children open so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < number:
        pytest.skip(f"this user may open {before[1]} files, and {number} are wanted")
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connection(broker: RunningBroker, user: str, port: int, **options: object) -> MqttConnection:
    return MqttConnection(
        MqttSettings(
            client_id=fresh_client_id(user, "test"),
            port=port,
            user=user,
            password=broker.secret(user),
            **options,  # type: ignore[arg-type]
        )
    )


def is_held(address: tuple[str, int], stack: ExitStack, packet: bytes = b"") -> bool:
    """Open a connection, kept until the stack ends; return whether the broker takes the packet."""
    try:
        with socket.create_connection(address, PATIENCE) as one:
            one.sendall(packet)
            # Out of the way of paho's select, which takes descriptors below 1,024 alone.
            stack.callback(os.close, fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 2000))
            return not packet or one.recv(4) == b"\x20\x02\x00\x00"
    except OSError:
        return False


def test_one_device_with_every_session_leaves_the_coordinator_a_way_in(
    folder: BrokerFolder,
) -> None:
    folder = replace(folder, connections=FEW)
    write_broker_folder(folder)
    with many_files(8192), running(folder.folder, folder.port) as broker, ExitStack() as stack:
        secret, held = broker.secret(A), 0
        while held < 2 * FEW:
            packet = connect_packet(f"dev-a.x{held}", A, secret)
            if not is_held(("127.0.0.1", folder.port), stack, packet):
                break
            held += 1
        assert FEW - 1 <= held <= FEW + 1

        other = connection(broker, B, folder.port, answer_seconds=1.0)
        other.start()
        with pytest.raises(TransportError):
            other.wait_connected(3)
        other.stop()

        assert folder.local_port is not None
        started(connection(broker, COORDINATOR, folder.local_port)).stop()


def test_two_thousand_idle_connections_without_a_password_shut_nobody_out(
    folder: BrokerFolder,
) -> None:
    _, _, allowed = (folder.folder / SERVICE_LIMITS).read_text().strip().partition("LimitNOFILE=")
    assert int(allowed) > MOST_CONNECTIONS > 6 * 64_512, "six addresses with all their ports"
    with many_files(8192), running(folder.folder, folder.port) as broker, ExitStack() as stack:
        for _ in range(2000):
            assert is_held(("127.0.0.1", folder.port), stack)
        started(connection(broker, A, folder.port)).stop()
        assert folder.local_port is not None
        started(connection(broker, COORDINATOR, folder.local_port)).stop()


def test_what_waits_for_an_absent_coordinator_is_bounded_and_is_not_written_all_the_time(
    folder: BrokerFolder,
) -> None:
    topic, payload = TOPICS.up(A, "msg"), os.urandom(MIB // 4)
    with running(folder.folder, folder.port) as broker:
        coordinator = started(connection(broker, COORDINATOR, folder.port), topic)
        device, other = (started(connection(broker, user, folder.port)) for user in (A, B))
        until_heard(coordinator, device, topic)
        coordinator.stop()
        before, written = broker.memory(), broker.written()
        for _ in range(4 * 100):
            while device.connected:
                try:
                    send(device, topic, payload)
                except TransportError:
                    device.next_event(0.05)  # its own queue is full
                    continue
                break
        watch = started(connection(broker, COORDINATOR, folder.port), TOPICS.up(B, "msg"))
        until_heard(watch, other, TOPICS.up(B, "msg"))
        assert broker.memory() - before < 60 * MIB
        assert broker.written() - written < 60 * MIB
        for one in (device, other, watch):
            one.stop()


def test_a_device_makes_no_retained_topics_of_its_own(folder: BrokerFolder) -> None:
    with running(folder.folder, folder.port) as broker:
        device = started(connection(broker, A, folder.port))
        for number in range(50):
            send(device, f"fleetledger/1/mill/up/dev-a/x{number}", b"x", retain=True)
            send(device, f"fleetledger/1/fleet-{number}/up/dev-a/state", b"x", retain=True)
        send(device, TOPICS.up(A, "state"), b"last", retain=True)
        reader = started(
            connection(broker, COORDINATOR, folder.port), "fleetledger/#", "fleetledger/1/+/up/#"
        )
        topics = set()
        while (event := reader.next_event(PATIENCE)) is not None:
            if isinstance(event, IncomingMessage):
                topics.add(event.topic)
                if event.payload == b"last":
                    break
        assert topics == {str(TOPICS.up(A, "state"))}
        device.stop()
        reader.stop()
