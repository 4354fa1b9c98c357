"""When a program comes back to its broker, and under which client id."""

import pytest

from fleetledger.transport.access import client_id_belongs_to, fresh_client_id
from fleetledger.transport.backoff import Returns
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.interface import Disconnected
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.worlds import QUIET, fresh_topics, rest, send, started

DEFAULTS = MqttSettings(client_id="dev-a")


def fresh() -> Returns:
    return Returns(DEFAULTS.reconnect_shortest_seconds, DEFAULTS.reconnect_longest_seconds)


def test_a_broker_that_comes_back_is_found_at_once_after_a_long_outage() -> None:
    returns = fresh()
    assert max(returns.after_refusal() for _ in range(100)) <= 30
    assert returns.after_loss(lived=3600) <= 0.5


def test_losses_that_follow_each_other_are_seconds_apart() -> None:
    returns = fresh()
    waits = [returns.after_loss(lived=1.0) for _ in range(100)]
    assert max(waits) <= 4
    assert min(waits[5:]) >= 1.5


def test_a_connection_that_lived_ends_the_row_of_losses() -> None:
    returns = fresh()
    for _ in range(20):
        returns.after_loss(lived=1.0)
    assert returns.after_loss(lived=200.0) <= 0.5


def test_a_broker_that_is_restarted_again_and_again_is_found_at_once() -> None:
    returns = fresh()
    for _ in range(50):
        assert returns.after_loss(lived=20.0) <= 0.5
        assert returns.after_silence() <= 0.5


def test_client_ids_of_two_runs_differ_and_belong_to_the_user() -> None:
    ids = {fresh_client_id("dev-a", "control") for _ in range(100)}
    assert len(ids) == 100
    assert all(client_id_belongs_to("dev-a", client_id) for client_id in ids)
    assert all(len(client_id) >= len("dev-a.control-") + 16 for client_id in ids)


@pytest.mark.broker
def test_two_programs_of_one_user_stay_connected_beside_each_other(
    mosquitto: MosquittoBroker,
) -> None:
    user, password = mosquitto.credentials("dev-a")
    one, other = (
        MqttConnection(
            MqttSettings(
                client_id=fresh_client_id(user, "control"),
                host=mosquitto.host,
                port=mosquitto.port,
                user=user,
                password=password,
            )
        )
        for _ in range(2)
    )
    topic = fresh_topics().up("dev-a", "msg")
    try:
        started(one)
        started(other)
        send(one, topic, b"from one")
        send(other, topic, b"from the other")
        assert not [event for event in rest(one, QUIET) if isinstance(event, Disconnected)]
        assert not [event for event in rest(other, QUIET) if isinstance(event, Disconnected)]
    finally:
        one.stop()
        other.stop()
