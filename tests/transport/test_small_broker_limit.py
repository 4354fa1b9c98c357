"""A broker that takes less than a block is told with its figure and the setting."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.transport.brokers.mosquitto import MosquittoBroker
from fleetledger.transport.errors import BrokerLimitError
from fleetledger.transport.interface import Connected, ConnectionProblem
from fleetledger.transport.mqtt import LEAST_PACKET, MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.test_renewed_password import until
from tests.transport.worlds import A

pytestmark = pytest.mark.broker


class LimitedBroker(MosquittoBroker):
    limit = 40_000

    def _configuration(self) -> list[str]:
        lines = [line for line in super()._configuration() if "max_packet_size" not in line]
        return [*lines, f"max_packet_size {self.limit}"]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[object]:
    made = []

    def connection(limit: int) -> MqttConnection:
        broker = LimitedBroker(tmp_path / str(limit), [A])
        broker.limit = limit
        broker.start()
        name, password = broker.credentials(A)
        made.append(
            (broker, MqttConnection(MqttSettings(A, "127.0.0.1", broker.port, name, password)))
        )
        made[-1][1].start()
        return made[-1][1]

    yield connection
    for broker, started in made:
        started.stop()
        broker.stop()


def test_the_figure_and_the_setting_are_told_after_connecting(connect) -> None:
    connection = connect(40_000)
    until(connection, Connected)
    told = until(connection, ConnectionProblem)
    assert isinstance(told.error, BrokerLimitError)
    assert "packets of at most 40000 bytes" in str(told.error)
    assert "raise `max_packet_size` in mosquitto.conf" in str(told.error)


def test_a_broker_that_takes_a_block_is_not_told(connect) -> None:
    connection = connect(LEAST_PACKET)
    until(connection, Connected)
    assert connection.next_event(0.5) is None
