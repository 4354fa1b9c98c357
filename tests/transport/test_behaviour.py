"""What every transport must do: the same tests in memory and on real brokers."""

from collections.abc import Iterator

import pytest

from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import decode, encode
from fleetledger.transport.brokers import EmbeddedBroker
from fleetledger.transport.errors import NotAuthorisedError, NotConnectedError, PayloadTooLargeError
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    IncomingMessage,
    OutgoingMessage,
)
from tests.conftest import BROKER_USERS
from tests.schemas.examples import sender
from tests.transport.worlds import (
    PATIENCE,
    QUIET,
    A,
    B,
    MemoryWorld,
    MqttWorld,
    World,
    messages,
    next_of,
    payloads,
    rest,
    send,
    started,
)


@pytest.fixture(scope="session")
def amqtt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    if not EmbeddedBroker.is_installed():
        pytest.skip("amqtt is not installed: `pip install 'fleetledger[broker]'`")
    with EmbeddedBroker(tmp_path_factory.mktemp("amqtt"), BROKER_USERS) as broker:
        yield broker


@pytest.fixture(
    params=[
        "memory",
        pytest.param("mosquitto, MQTT 5", marks=pytest.mark.broker),
        pytest.param("mosquitto, MQTT 3.1.1", marks=pytest.mark.broker),
        "amqtt",
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World
    if request.param == "memory":
        made = MemoryWorld()
    elif request.param == "amqtt":
        broker = request.getfixturevalue("amqtt")
        made = MqttWorld(broker, 4, marks_only_retained=False)
    else:
        broker = request.getfixturevalue("mosquitto")
        made = MqttWorld(broker, 5 if request.param.endswith("5") else 4)
    yield made
    made.close()


def test_a_published_message_reaches_the_subscriber_whole(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), *world.topics.from_every_device("msg"))
    world.settle(coordinator, topic)
    device = started(world.connection(A))
    payload = bytes(range(256)) * 300

    send(device, topic, payload)

    message = next_of(coordinator, IncomingMessage)
    assert (message.topic, message.payload, message.qos) == (topic, payload, 1)
    assert not message.retained


def test_messages_on_one_topic_arrive_in_order(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A))

    for number in range(50):
        send(device, topic, b"%d" % number)

    assert payloads(coordinator, 50) == [b"%d" % number for number in range(50)]


def test_wildcards_select_levels(world: World) -> None:
    coordinator = started(world.connection("coordinator"), *world.topics.from_every_device("msg"))
    world.settle(coordinator, world.topics.up(A, "msg"))
    device, other = started(world.connection(A)), started(world.connection(B))

    send(device, world.topics.up(A, "hb"), b"another leaf")
    send(device, world.topics.up(A, "msg"), b"from a")
    send(other, world.topics.up(B, "msg"), b"from b")

    assert sorted(messages(rest(coordinator))) == [b"from a", b"from b"]


def test_a_retained_message_waits_for_later_subscribers(world: World) -> None:
    topic = world.topics.down(A, "desired")
    coordinator = started(world.connection("coordinator"))
    send(coordinator, topic, b"old", retain=True)
    send(coordinator, topic, b"new", retain=True)
    world.settle(started(world.connection("coordinator", role="watch"), topic), topic)

    device = started(world.connection(A), topic)

    message = next_of(device, IncomingMessage)
    assert (message.payload, message.retained) == (b"new", True)
    assert messages(rest(device)) == []


def test_an_empty_payload_clears_a_retained_message(world: World) -> None:
    topic = world.topics.down(A, "desired")
    coordinator = started(world.connection("coordinator"))
    send(coordinator, topic, b"old", retain=True)
    send(coordinator, topic, b"", retain=True)
    world.settle(started(world.connection("coordinator", role="watch"), topic), topic)

    device = started(world.connection(A), topic)

    assert messages(rest(device)) == []


def test_the_will_is_published_when_the_connection_is_lost(world: World) -> None:
    topic = world.topics.up(A, "state")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A, will=OutgoingMessage(topic, b"death", retain=True)))

    world.cut(device)

    assert payloads(coordinator, 1) == [b"death"]
    late = started(world.connection("coordinator", role="late"), topic)
    assert next_of(late, IncomingMessage).payload == b"death"


def test_stop_sends_what_is_queued_and_no_will(world: World) -> None:
    topic = world.topics.up(A, "state")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A, will=OutgoingMessage(topic, b"death")))

    send(device, topic, b"goodbye")
    device.stop()
    device.stop()

    assert messages(rest(coordinator, 2 * QUIET)) == [b"goodbye"]
    assert isinstance(next_of(device, Disconnected), Disconnected)


def test_a_lost_connection_comes_back_by_itself(world: World) -> None:
    topic = world.topics.down(A, "rcpt")
    device = started(world.connection(A), topic)
    world.settle(device, topic)
    rest(device, 0.05)

    world.cut(device)

    next_of(device, Disconnected)
    assert next_of(device, Connected).session_present == world.keeps_sessions
    world.settle(device, topic)
    rest(device, 0.05)
    coordinator = started(world.connection("coordinator"))
    send(coordinator, topic, b"still subscribed")
    assert payloads(device, 1) == [b"still subscribed"]


def test_messages_wait_for_a_client_that_is_away_for_a_moment(world: World) -> None:
    if not world.keeps_sessions:
        return  # a session of MQTT 3.1.1 would stay for ever, so none is kept
    topic = world.topics.down(A, "rcpt")
    device = started(world.connection(A), topic)
    world.settle(device, topic)
    device.stop()
    coordinator = started(world.connection("coordinator"))

    send(coordinator, topic, b"first")
    send(coordinator, topic, b"second")
    world.settle(started(world.connection("coordinator", role="watch"), topic), topic)

    returned = started(world.connection(A), topic)
    assert payloads(returned, 2) == [b"first", b"second"]


def test_what_was_not_acknowledged_comes_again_after_a_reconnect(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A))
    for number in range(6):
        send(device, topic, b"%d" % number)
    assert payloads(coordinator, 3) == [b"0", b"1", b"2"]
    assert payloads(coordinator, 3, acknowledge=False) == [b"3", b"4", b"5"]
    rest(coordinator, 0.1)  # the acknowledgements of the first three leave

    world.cut(coordinator)

    again = messages(rest(coordinator, 2 * QUIET))
    if world.keeps_unacknowledged:
        assert again == [b"3", b"4", b"5"]
    else:
        # No session is kept in 3.1.1, which is one reason why a receipt and not the broker confirms
        # a contribution.
        assert set(again) <= {b"3", b"4", b"5"}


def test_an_acknowledgement_for_an_earlier_connection_is_ignored(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A))
    send(device, topic, b"once")
    message = next_of(coordinator, IncomingMessage)

    world.cut(coordinator)
    next_of(coordinator, Connected)
    world.settle(coordinator, topic)
    coordinator.acknowledge(message)

    send(device, topic, b"after")
    assert messages(rest(coordinator))[-1] == b"after"


def test_subscriptions_are_made_again_when_the_broker_has_forgotten_us(world: World) -> None:
    topic = world.topics.down(A, "rcpt")
    device = started(world.connection(A), topic)
    world.settle(device, topic)
    rest(device, 0.05)

    world.restart()

    assert not next_of(device, Connected).session_present
    coordinator = started(world.connection("coordinator"))
    send(coordinator, topic, b"found again")
    assert b"found again" in messages(rest(device))


def test_too_large_a_payload_is_refused_and_later_messages_pass(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A, max_payload=10_000))

    with pytest.raises(PayloadTooLargeError, match=r"up/dev-a/msg.*10001 bytes.*10000.*blocks"):
        send(device, topic, bytes(10_001))
    send(device, topic, b"small")

    assert payloads(coordinator, 1) == [b"small"]
    assert device.connected
    assert not [e for e in rest(device, 0.05) if isinstance(e, Disconnected)]


def test_the_largest_allowed_payload_passes(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    device = started(world.connection(A))
    payload = bytes(device.max_payload)

    send(device, topic, payload)

    assert payloads(coordinator, 1) == [payload]


def test_publishing_without_a_connection_raises_and_keeps_nothing(world: World) -> None:
    device = world.connection(A)
    topic = world.topics.up(A, "msg")

    with pytest.raises(NotConnectedError, match="send again"):
        send(device, topic, b"lost")

    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    started(device)
    assert messages(rest(coordinator)) == []


def test_a_wrong_password_is_refused_with_a_clear_error(world: World) -> None:
    device = world.connection(A, password="wrong", role="thief")

    device.start()

    with pytest.raises(NotAuthorisedError, match=r"dev-a.*refuses this user name and password"):
        device.wait_connected(PATIENCE)
    assert isinstance(next_of(device, ConnectionProblem).error, NotAuthorisedError)
    assert not device.connected


def test_a_device_cannot_publish_for_another(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), *world.topics.from_every_device("msg"))
    world.settle(coordinator, topic)
    thief = started(world.connection(B))
    rest(thief, 0.05)

    send(thief, topic, b"forged")
    send(thief, world.topics.coordinator_state, b"forged")
    send(thief, world.topics.up(B, "msg"), b"own")

    assert payloads(coordinator, 1) == [b"own"]
    problems = [event.error for event in rest(thief) if isinstance(event, ConnectionProblem)]
    if world.reports_forbidden:
        assert len(problems) == 2
        assert all(isinstance(error, NotAuthorisedError) for error in problems)
    else:
        # MQTT 3.1.1 has no way to say so: a forbidden message is acknowledged and dropped.
        assert problems == []


def test_a_device_cannot_leave_a_will_for_another(world: World) -> None:
    topic = world.topics.up(A, "state")
    coordinator = started(world.connection("coordinator"), *world.topics.from_every_device("state"))
    world.settle(coordinator, topic)
    thief = world.connection(B, will=OutgoingMessage(topic, b"dev-a is dead"), role="thief")

    thief.start()
    if any(isinstance(event, Connected) for event in rest(thief)):
        world.cut(thief)

    assert messages(rest(coordinator)) == []


def test_a_device_cannot_receive_what_is_meant_for_another(world: World) -> None:
    topic = world.topics.down(A, "rcpt")
    coordinator = started(world.connection("coordinator"))
    device = started(world.connection(A), topic)
    world.settle(device, topic)
    send(coordinator, world.topics.down(A, "desired"), b"retained for a", retain=True)
    own = world.topics.down(B, "rcpt")
    thief = started(world.connection(B), own, "#", topic, world.topics.down(A, "desired"))
    world.settle(thief, own)

    send(coordinator, topic, b"for a")

    assert payloads(device, 1) == [b"for a"]
    assert set(messages(rest(thief))) <= {b"probe"}


def test_a_reconnecting_device_gets_no_retained_message_of_another(world: World) -> None:
    own = world.topics.down(B, "rcpt")
    coordinator = started(world.connection("coordinator"), *world.topics.from_every_device("state"))
    device = started(world.connection(A))
    send(device, world.topics.up(A, "state"), b"birth of a", retain=True)
    assert payloads(coordinator, 1) == [b"birth of a"]
    other = started(world.connection(B), own)
    world.settle(other, own)

    world.cut(other)

    next_of(other, Connected)
    assert messages(rest(other)) == []


def test_wake_interrupts_a_waiting_reader(world: World) -> None:
    device = started(world.connection(A))
    rest(device, 0.05)

    device.wake()

    assert device.next_event(PATIENCE) is None


def test_the_meter_counts_payload_bytes_by_kind_of_topic(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    before = coordinator.meter.total()
    device = started(world.connection(A))

    send(device, topic, bytes(100))
    send(device, topic, bytes(50))

    payloads(coordinator, 2)
    received = coordinator.meter.total() - before
    assert (received.messages_down, received.bytes_down) == (2, 150)
    sent = device.meter.by_class()["up/msg"]
    assert (sent.messages_up, sent.bytes_up, sent.messages_down) == (2, 150, 0)


def test_an_attachment_travels_compressed_over_a_network_alone(world: World) -> None:
    topic = world.topics.up(A, "msg")
    coordinator = started(world.connection("coordinator"), topic)
    world.settle(coordinator, topic)
    before = coordinator.meter.total()
    device = started(world.connection(A))
    sealed = sender().seal(Nothing(stage=1), sent_ms=0, attachment=bytes(20_000))

    send(device, topic, encode(sealed), compressible=True)
    send(device, topic, encode(sealed))

    assert [decode(payload) for payload in payloads(coordinator, 2)] == [sealed, sealed]
    sent, received = device.meter.total().bytes_up, coordinator.meter.total() - before
    assert sent == received.bytes_down
    plain = len(encode(sealed))
    assert sent == 2 * plain if isinstance(world, MemoryWorld) else plain < sent < plain + 1000
