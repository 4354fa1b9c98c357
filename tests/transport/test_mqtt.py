"""What is particular to MQTT: versions, limits, full queues, failing callbacks and dead threads."""

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleetledger.transport.brokers import EmbeddedBroker, MosquittoBroker
from fleetledger.transport.brokers.child import free_port
from fleetledger.transport.errors import (
    BrokerUnreachableError,
    CallbackError,
    InboxFullError,
    NotAuthorisedError,
    PayloadTooLargeError,
    QueueFullError,
)
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    IncomingMessage,
)
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.worlds import (
    PATIENCE,
    QUIET,
    A,
    B,
    fresh_topics,
    messages,
    next_of,
    payloads,
    rest,
    send,
    started,
    until_heard,
)

pytestmark = pytest.mark.broker
Connect = Callable[..., MqttConnection]


def until_arrived(reader: MqttConnection, before: int, number: int) -> None:
    """Return once so many more messages have arrived, whether they found room or not."""
    end = time.monotonic() + PATIENCE
    while (arrived := reader.meter.total().messages_down - before) < number:
        assert time.monotonic() < end, f"{arrived} of {number} messages arrived"
        time.sleep(0.01)


@pytest.fixture
def connect(mosquitto: MosquittoBroker) -> Iterator[Connect]:
    """Makes connections straight to Mosquitto, not started; stops them in the end."""
    made = []

    def make(user: str, **options: Any) -> MqttConnection:
        name, password = mosquitto.credentials(user)
        settings = MqttSettings(
            port=mosquitto.port,
            user=name,
            reconnect_shortest_seconds=0.02,
            reconnect_longest_seconds=0.2,
            **{
                "client_id": f"{user}.{secrets.token_hex(4)}",
                "password": password,
                **options,
            },
        )
        made.append(MqttConnection(settings))
        return made[-1]

    yield make
    for connection in made:
        connection.stop()


def test_version_5_is_preferred(connect: Connect) -> None:
    assert started(connect(A)).version == 5  # type: ignore[attr-defined]


def test_a_broker_of_3_1_1_is_reached_without_delay(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if not EmbeddedBroker.is_installed():
        pytest.skip("amqtt is not installed")
    with EmbeddedBroker(tmp_path_factory.mktemp("amqtt"), [A]) as broker:
        user, password = broker.credentials(A)
        settings = MqttSettings(
            client_id=A,
            port=broker.port,
            user=user,
            password=password,
            answer_seconds=2 * PATIENCE,  # to wait for an answer in version 5 would not do
        )
        connection = MqttConnection(settings)
        try:
            started(connection)
            assert connection.version == 4
        finally:
            connection.stop()


def test_a_missing_broker_is_named_with_its_address() -> None:
    port = free_port("127.0.0.1")
    connection = MqttConnection(MqttSettings(client_id=A, port=port))
    connection.start()
    try:
        with pytest.raises(BrokerUnreachableError, match=rf"127.0.0.1:{port}: no broker answers"):
            connection.wait_connected(0.5)
    finally:
        connection.stop()


def test_a_repeated_refusal_is_reported_once(connect: Connect) -> None:
    thief = connect(A, password="wrong")
    thief.start()

    problems = [e.error for e in rest(thief, 2 * QUIET) if isinstance(e, ConnectionProblem)]

    assert [type(error) for error in problems] == [NotAuthorisedError]


def test_the_limit_that_the_broker_announces_is_kept(connect: Connect) -> None:
    topics = fresh_topics()
    topic = topics.up(A, "msg")
    device = connect(A, max_payload=10_000_000)
    assert device.max_payload == 10_000_000
    started(device)
    coordinator = started(connect("coordinator"), topic)

    assert device.max_payload == 1024 * 1024 - 1024
    with pytest.raises(PayloadTooLargeError):
        send(device, topic, bytes(device.max_payload + 1))
    send(device, topic, bytes(device.max_payload), retain=True)

    assert len(next_of(coordinator, IncomingMessage).payload) == device.max_payload
    assert not [event for event in rest(device) if isinstance(event, Disconnected)]
    send(device, topic, b"", retain=True)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_full_outgoing_queue_raises_and_recovers(connect: Connect, qos: int) -> None:
    topic = fresh_topics().up(A, "msg")
    device = started(connect(A, queue_bytes=2_000_000))

    def flood() -> None:
        for _ in range(2_000):
            send(device, topic, bytes(300_000), qos=qos)

    with pytest.raises(QueueFullError, match="send again when the queue has drained"):
        flood()

    time.sleep(QUIET)
    send(device, topic, bytes(300_000), qos=qos)
    assert device.connected


def test_an_overflowing_inbox_costs_messages_and_says_so_once(connect: Connect) -> None:
    topic = fresh_topics().up(A, "hb")
    reader = started(connect("coordinator", inbox_messages=5), topic)
    next_of(reader, Connected)
    device = started(connect(A))
    until_heard(reader, device, topic)

    before = reader.meter.total().messages_down
    for number in range(100):
        send(device, topic, b"%d" % number, qos=0)
    until_arrived(reader, before, 100)

    assert payloads(reader, 5) == [b"0", b"1", b"2", b"3", b"4"]
    send(device, topic, b"later", qos=0)
    assert messages(rest(reader)) == [b"later"]


def test_a_failing_callback_is_an_event_and_the_connection_lives_on(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh_topics().down(A, "rcpt")
    device = started(connect(A), topic)
    coordinator = started(connect("coordinator"))
    original = MqttConnection.received

    def failing(self: MqttConnection, message: IncomingMessage) -> None:
        if message.payload == b"poison":
            raise ZeroDivisionError("in the network thread")
        original(self, message)

    monkeypatch.setattr(MqttConnection, "received", failing)
    until_heard(device, coordinator, topic)
    send(coordinator, topic, b"poison")
    send(coordinator, topic, b"food")

    error = next_of(device, ConnectionProblem).error
    assert isinstance(error, CallbackError)
    assert "in the network thread" in str(error)
    assert payloads(device, 1) == [b"food"]


def test_inbox_overflow_is_a_problem_event_when_there_is_room_again(connect: Connect) -> None:
    topic = fresh_topics().up(A, "hb")
    reader = started(connect("coordinator", inbox_bytes=1_000), topic)
    device = started(connect(A))
    until_heard(reader, device, topic)

    before = reader.meter.total().messages_down
    for _ in range(3):
        send(device, topic, bytes(600), qos=0)
    until_arrived(reader, before, 3)

    events = rest(reader, 0.05)
    assert [len(payload) for payload in messages(events)] == [600]
    assert [type(e.error) for e in events if isinstance(e, ConnectionProblem)] == [InboxFullError]


def test_what_was_left_out_and_the_broker_keeps_comes_once_there_is_room(connect: Connect) -> None:
    """Else the broker would wait for acknowledgements, and after some of them give nothing more."""
    topic = fresh_topics().up(A, "msg")
    reader = started(connect("coordinator", inbox_bytes=10_000), topic)
    device = started(connect(A))
    until_heard(reader, device, topic)

    before = reader.meter.total().messages_down
    wanted = [number.to_bytes(2, "big") + bytes(900) for number in range(30)]
    for payload in wanted:
        send(device, topic, payload)
    until_arrived(reader, before, len(wanted))

    found: set[bytes] = set()
    end = time.monotonic() + PATIENCE
    while len(found) < len(wanted):
        assert time.monotonic() < end, f"{len(found)} of {len(wanted)} messages came"
        for event in rest(reader, 0.05):
            if isinstance(event, IncomingMessage):
                reader.acknowledge(event)
                found.add(event.payload)
    assert found == set(wanted)


def test_a_stolen_client_id_gives_no_access_to_queued_messages(connect: Connect) -> None:
    topic = fresh_topics().down(A, "rcpt")
    device = started(connect(A), topic)
    name = device.settings.client_id  # type: ignore[attr-defined]
    coordinator = started(connect("coordinator"))
    until_heard(device, coordinator, topic)
    device.stop()
    send(coordinator, topic, b"for a")
    time.sleep(0.1)

    thief = started(connect(B, client_id=name))

    assert messages(rest(thief)) == []


@pytest.mark.parametrize("version", [5, 4])
def test_a_client_without_a_session_begins_with_nothing_that_another_left_behind(
    connect: Connect, version: int
) -> None:
    topics = fresh_topics()
    topic, options = topics.up(A, "msg"), {"versions": (version,), "keeps_session": False}
    first = started(connect("coordinator", client_id=f"coordinator.{version}", **options), topic)
    device = started(connect(A))
    until_heard(first, device, topic)
    send(device, topic, b"in hand")
    assert payloads(first, 1, acknowledge=False) == [b"in hand"]
    first.stop()
    send(device, topic, b"while nobody was there")
    second = started(connect("coordinator", client_id=f"coordinator.{version}", **options), topic)
    until_heard(second, device, topic)
    send(device, topic, b"for the next")
    assert payloads(second, 1) == [b"for the next"]
