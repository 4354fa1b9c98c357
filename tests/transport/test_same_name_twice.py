"""Two programs with one client id: they take the session over at most once a minute."""

import itertools
import socket

import pytest

from tests.transport.worlds import PATIENCE, next_of, started
from transport.backoff import Returns
from transport.brokers import MosquittoBroker
from transport.errors import PushedOutError, TakenOverError
from transport.interface import Connected, ConnectionProblem, Disconnected
from transport.mqtt import MqttConnection
from transport.mqtt_settings import MqttSettings

DEFAULTS = MqttSettings(client_id="dev-a")


def fresh() -> Returns:
    return Returns(DEFAULTS.reconnect_shortest_seconds, DEFAULTS.reconnect_longest_seconds)


def takeovers(hours: float) -> list[float]:
    """Return when two programs with one name push each other out, in seconds."""
    programs, moments, now, connected = (fresh(), fresh()), [0.0], 0.0, 0
    while now < hours * 3600:
        lived = moments[-1] - moments[-2] if len(moments) > 1 else 0.0
        now += programs[1 - connected].after_loss(lived)
        connected = 1 - connected
        moments.append(now)
    return moments


def test_two_programs_push_each_other_out_at_most_once_a_minute() -> None:
    moments = takeovers(hours=10)
    storm = [moment for moment in moments if moment < 300]
    assert len(storm) < 25, "while it may have been a broker that restarts"
    later = [moment for moment in moments if moment >= 300]
    assert len(later) > 100
    assert min(b - a for a, b in itertools.pairwise(later)) >= 60


def test_a_broker_that_comes_back_is_found_at_once_after_a_long_outage() -> None:
    returns = fresh()
    assert max(returns.after_refusal() for _ in range(100)) <= 30
    assert returns.after_loss(lived=3600) <= 0.5


def test_a_connection_that_lived_ends_the_row_of_losses() -> None:
    returns = fresh()
    for _ in range(20):
        returns.after_loss(lived=1.0)
    assert returns.after_loss(lived=200.0) <= 0.5


def test_a_broker_that_is_restarted_again_and_again_is_no_second_program() -> None:
    returns = fresh()
    for _ in range(50):
        assert returns.after_loss(lived=20.0) <= 0.5
        assert returns.after_silence() <= 0.5


def test_a_few_losses_are_not_taken_for_a_second_program() -> None:
    returns = fresh()
    assert sum(returns.after_loss(lived=20.0) for _ in range(5)) < 12
    assert returns.after_loss(lived=20.0) <= 4


@pytest.mark.broker
def test_on_a_real_broker_they_slow_down(mosquitto: MosquittoBroker) -> None:
    user, password = mosquitto.credentials("dev-a")
    settings = MqttSettings(
        client_id="dev-a.twin",
        host=mosquitto.host,
        port=mosquitto.port,
        user=user,
        password=password,
        reconnect_shortest_seconds=0.01,
        reconnect_longest_seconds=0.5,
        taken_over_seconds=1.0,
    )
    one, other = MqttConnection(settings), MqttConnection(settings)
    try:
        started(one)
        started(other)
        told = None
        while told is None:
            event = one.next_event(PATIENCE)
            assert event is not None, "they stopped pushing each other out"
            told = event if isinstance(event, ConnectionProblem) else None
        assert isinstance(told.error, PushedOutError | TakenOverError)
        assert "under this name" in str(told.error)
    finally:
        one.stop()
        other.stop()


def test_a_broker_that_says_that_a_session_was_taken_over_is_believed() -> None:
    """MQTT 5 has a reason for it, 0x8E; Mosquitto 2.0.11 sends none, so a scripted broker does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = MqttSettings(
            client_id="dev-a.twin",
            host="127.0.0.1",
            port=server.getsockname()[1],
            taken_over_seconds=600.0,
        )
        connection = MqttConnection(settings)
        connection.start()
        try:
            link, _ = server.accept()
            with link:
                link.recv(4096)
                link.sendall(bytes([0x20, 3, 0, 0, 0]))
                next_of(connection, Connected, PATIENCE)
                link.sendall(bytes([0xE0, 1, 0x8E]))
                assert "taken over" in next_of(connection, Disconnected, PATIENCE).reason
            error = next_of(connection, ConnectionProblem, PATIENCE).error
            assert isinstance(error, TakenOverError)
            assert "another program connected under this name" in str(error)
            assert float(str(error).split()[-2]) >= 600, "the session is left to the other one"
        finally:
            connection.stop()


def test_losses_that_follow_each_other_are_counted_and_an_outage_is_none() -> None:
    returns = fresh()
    for _ in range(3):
        returns.after_loss(lived=1.0)
    assert returns.losses == 3
    returns.after_silence()
    assert returns.losses == 0
    returns.after_loss(lived=200.0)
    assert returns.losses == 1
