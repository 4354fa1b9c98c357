"""Which version of MQTT is spoken with a broker that hangs, and with one of another age."""

import threading
from collections.abc import Callable, Iterator

import pytest

from fleetledger.transport import mqtt
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MQTT_3_1_1, MQTT_5, MqttSettings
from fleetledger.transport.paho_link import NoAnswerError, PahoLink
from tests.transport.worlds import PATIENCE

SILENT, ACCEPTS = "silent", "accepts"


class Broker:
    """Answers one attempt after the other as it was told, and then no more."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []
        self.done = threading.Event()

    def answer(self, version: int) -> str:
        if not self._answers:
            self.done.set()
            return SILENT
        self.asked.append(version)
        return self._answers.pop(0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Broker], list[int]]]:
    """Lets a connection talk to a broker, and returns the versions that it tried."""
    made: list[MqttConnection] = []

    def ask(broker: Broker) -> list[int]:
        class Link(PahoLink):
            def open(self) -> None:
                if broker.answer(self.version) == SILENT:
                    raise NoAnswerError("silent")
                self.give_up("lost at once")

        monkeypatch.setattr(mqtt, "PahoLink", Link)
        settings = MqttSettings(
            client_id="dev-a", reconnect_shortest_seconds=0.001, reconnect_longest_seconds=0.001
        )
        made.append(MqttConnection(settings))
        made[-1].start()
        assert broker.done.wait(PATIENCE)
        return broker.asked

    yield ask
    for connection in made:
        connection.stop()


def test_an_unknown_broker_that_does_not_answer_is_tried_in_the_older_version(
    asked: Callable[[Broker], list[int]],
) -> None:
    assert asked(Broker(SILENT, ACCEPTS, ACCEPTS)) == [MQTT_5, MQTT_3_1_1, MQTT_3_1_1]


def test_a_broker_that_hangs_for_a_while_is_not_taken_for_an_older_one(
    asked: Callable[[Broker], list[int]],
) -> None:
    assert asked(Broker(ACCEPTS, SILENT, SILENT, ACCEPTS, SILENT)) == [MQTT_5] * 5


def test_a_broker_that_was_replaced_by_an_older_one_is_found(
    asked: Callable[[Broker], list[int]],
) -> None:
    tried = asked(Broker(ACCEPTS, SILENT, SILENT, SILENT, ACCEPTS, ACCEPTS))
    assert tried == [MQTT_5] * 4 + [MQTT_3_1_1] * 2
