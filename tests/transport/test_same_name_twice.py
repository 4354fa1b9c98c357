"""Two programs with one client id: they take the session over at most once a minute."""

import itertools

import pytest

from tests.transport.worlds import PATIENCE, next_of, started
from transport.backoff import Returns
from transport.brokers import MosquittoBroker
from transport.interface import Connected, Disconnected
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
        for _ in range(4):
            next_of(one, Disconnected, PATIENCE)
            next_of(one, Connected, PATIENCE)
        assert one.connected or other.connected
    finally:
        one.stop()
        other.stop()
