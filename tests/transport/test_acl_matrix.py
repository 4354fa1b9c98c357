"""Three devices, all topics, publishing and receiving, MQTT 5 and 3.1.1: nothing leaks.

Everybody tries everything, on a Mosquitto with the files that an operator gets. Who received what
from whom is compared with the rules as a whole, so that a test that hears nothing fails as well.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from paho.mqtt.enums import MQTTErrorCode

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.interface import (
    Connected,
    Connection,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MQTT_3_1_1, MQTT_5, MqttSettings
from fleetledger.transport.paho_link import make_client
from tests.transport.acl_matrix import (
    DEVICES,
    ORDINARY,
    USERS,
    all_topics,
    deliveries,
    matrix_folder,
    may_publish,
    may_receive,
)
from tests.transport.standalone import RunningBroker, running
from tests.transport.worlds import PATIENCE, QUIET, next_of, rest, send, started

pytestmark = pytest.mark.broker
TOPICS = all_topics()
EVERY_WAY_TO_ASK = ("#", "+/#", "fleetledger/1/+/+/#", "$share/all/#", *TOPICS)
DONE, END = b"done", b"end"


@pytest.fixture(scope="module")
def broker(
    mosquitto: MosquittoBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("matrix")
    with running(folder, matrix_folder(folder)) as made:
        yield made


@pytest.fixture(params=[MQTT_5, MQTT_3_1_1], ids=["5", "3.1.1"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def settings_of(broker: RunningBroker, user: str, version: int) -> MqttSettings:
    return MqttSettings(
        client_id=f"{user}.{secrets.token_hex(4)}",
        port=broker.port,
        user=user,
        password=broker.secret(user),
        versions=(version,),
    )


@contextmanager
def everybody(
    broker: RunningBroker, version: int, *filters: str
) -> Iterator[dict[str, Connection]]:
    """Connect all users, subscribed to `filters`."""
    made = {user: MqttConnection(settings_of(broker, user, version)) for user in USERS}
    try:
        for one in made.values():
            started(one, *filters)
            next_of(one, Connected)
        yield made
    finally:
        for one in made.values():
            one.stop()


def collect(
    reader: Connection, enough: Callable[[list[Event]], bool], again: Callable[[], None]
) -> list[Event]:
    """Read and acknowledge until it is `enough`; where nothing comes, have it said `again`.

    A connection is told before its broker serves it, so what was said at once may be missed.
    """
    events: list[Event] = []
    end = time.monotonic() + PATIENCE
    while not enough(events):
        event = reader.next_event(1.0)
        if event is None:
            assert time.monotonic() < end, "it fell silent"
            again()
            continue
        assert not isinstance(event, Disconnected)
        if isinstance(event, IncomingMessage):
            reader.acknowledge(event)
        events.append(event)
    return events


def payloads_of(events: list[Event], *wanted: bytes) -> int:
    return sum(isinstance(event, IncomingMessage) and event.payload in wanted for event in events)


def everything_sent(users: dict[str, Connection]) -> dict[str, list[Event]]:
    """Return what each user got of all that the others sent before.

    A broker takes the messages of one publisher in their order. When the coordinator has the last
    of each, all are through; when a reader has the coordinator's last, nothing else waits for it.
    """
    others = [user for user in USERS if user != COORDINATOR]
    last = {DONE + user.encode() for user in others}
    coordinator = users[COORDINATOR]

    def done() -> None:
        for user in others:
            send(users[user], ORDINARY.up(user, "hb"), DONE + user.encode())

    def end() -> None:
        send(coordinator, ORDINARY.coordinator_state, END)

    done()
    heard = collect(
        coordinator,
        lambda events: last <= {e.payload for e in events if isinstance(e, IncomingMessage)},
        done,
    )
    end()
    got = {
        user: collect(one, lambda events: payloads_of(events[-1:], END) == 1, end)
        for user, one in users.items()
    }
    got[COORDINATOR] = heard + got[COORDINATOR]
    return and_what_is_late(users, got, QUIET)


def and_what_is_late(
    users: dict[str, Connection], got: dict[str, list[Event]], seconds: float
) -> dict[str, list[Event]]:
    time.sleep(seconds)
    return {user: events + rest(users[user], 0.01) for user, events in got.items()}


def attempts(received: list[Event]) -> set[tuple[str, str]]:
    """Return topic and publisher of the messages of the matrix; the payload names the publisher."""
    return {
        (event.topic, event.payload.decode())
        for event in received
        if isinstance(event, IncomingMessage) and event.payload.decode() in USERS
    }


def die_with_will(broker: RunningBroker, user: str, topic: str, version: int) -> None:
    """Connect with a will on `topic`, if the broker allows that, and vanish without a goodbye."""
    settings = settings_of(broker, user, version)
    will = OutgoingMessage(topic, f"will of {user}".encode())
    client = make_client(replace(settings, will_delay_seconds=0), version, will)
    answered: list[bool] = []
    client.on_connect = lambda *arguments: answered.append(True)
    client.connect(settings.host, settings.port)
    end = time.monotonic() + PATIENCE
    while not answered and client.loop(0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS:
        assert time.monotonic() < end, "the broker does not answer"
    connection = client.socket()
    if connection is not None:
        connection.close()


def test_the_matrix_is_as_large_as_promised() -> None:
    assert len(TOPICS) == 2 + 2 * 3 * (5 + 6) + 7
    tried = len(DEVICES) * len(TOPICS) * 2 * 2
    assert tried == 900
    used = [topic for topic in TOPICS if any(may_receive(user, topic) for user in USERS)]
    assert len(used) == 2 + 3 * (5 + 6) + 3 * (3 + 3)
    for topic in used:  # somebody hears whatever gets through, on each of them
        assert any(may_publish(user, topic) for user in USERS)


def test_nobody_publishes_or_receives_beyond_the_rules(broker: RunningBroker, version: int) -> None:
    with everybody(broker, version, *EVERY_WAY_TO_ASK) as users:
        for user, one in users.items():
            for topic in TOPICS:
                send(one, topic, user.encode(), retain=True)
        got = everything_sent(users)

    found = {(user, *attempt) for user, events in got.items() for attempt in attempts(events)}
    expected = set(deliveries())
    assert found - expected == set(), "leaked"
    assert expected - found == set(), "kept from those who may have it"
    refused = {
        user: sum(isinstance(event, ConnectionProblem) for event in events)
        for user, events in got.items()
    }
    for user in USERS:  # 3.1.1 has no words for it: forbidden messages vanish
        forbidden = sum(not may_publish(user, topic) for topic in TOPICS)
        assert refused[user] == (forbidden if version == MQTT_5 else 0)


def test_nothing_forged_was_retained_for_those_who_come_later(
    broker: RunningBroker, version: int
) -> None:
    with everybody(broker, version, "#") as users:
        for user, one in users.items():
            for topic in TOPICS:
                send(one, topic, user.encode(), retain=True)
        everything_sent(users)
    with everybody(broker, version, "#") as late:
        got = {user: attempts(events) for user, events in everything_sent(late).items()}

    for user, found in got.items():
        assert {topic for topic, _ in found} == {t for t in TOPICS if may_receive(user, t)}
        assert not [pair for pair in found if not may_publish(pair[1], pair[0])]


def test_nobody_leaves_a_will_beyond_the_rules(broker: RunningBroker, version: int) -> None:
    """A will is published by the broker itself, so it is tried on its own."""
    with everybody(broker, version, "#") as users:
        for device in DEVICES:
            for topic in TOPICS:
                die_with_will(broker, device, topic, version)
        # the broker notices a cut connection at its next look, and wills have no order
        got = and_what_is_late(users, everything_sent(users), 1.0)

    found = {
        (user, event.topic, event.payload.decode().removeprefix("will of "))
        for user, events in got.items()
        for event in events
        if isinstance(event, IncomingMessage) and event.payload.startswith(b"will of ")
    }
    assert found == {way for way in deliveries() if way[2] in DEVICES}
