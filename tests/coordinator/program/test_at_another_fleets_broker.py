"""A coordinator at another fleet's Mosquitto is let in, hears nothing, and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from fleetledger.coordinator.program.shell import ECHO_SECONDS
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.folder import BrokerFolder, write_broker_folder
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.coordinator.shell_harness import COORDINATOR, FLEET, MemoryCoordinator, write_home
from tests.transport.standalone import RunningBroker, free_port, running

pytestmark = pytest.mark.broker


class AsBroker:
    """Gives connections to a Mosquitto in place of those to a broker in memory."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker

    def connection(self, name: str) -> MqttConnection:
        return MqttConnection(
            MqttSettings(
                client_id=fresh_client_id(COORDINATOR, name.replace(".", "-")),
                port=self._broker.port,
                user=COORDINATOR,
                password=self._broker.secret(COORDINATOR),
            )
        )


@pytest.fixture
def shift() -> list[float]:
    """Seconds that the coordinator's clock is ahead."""
    return [0.0]


@pytest.fixture
def clock(shift: list[float]) -> Clock:
    return Clock(
        seconds=lambda: time.monotonic() + shift[0], time_ns=time.time_ns, sleep=time.sleep
    )


@pytest.fixture
def coordinator(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, mosquitto: MosquittoBroker
) -> Iterator[MemoryCoordinator]:
    folder, port = tmp_path / "broker", free_port("127.0.0.1")
    write_broker_folder(BrokerFolder(folder, folder, port, request.param, []))
    write_home(tmp_path / "home")
    with running(folder, port) as broker:
        served = cast("InMemoryBroker", AsBroker(broker))
        made = MemoryCoordinator(tmp_path / "home", served, clock=clock)
        yield made
        made.close()


def problems(coordinator: MemoryCoordinator) -> list[str]:
    return [problem.text for problem in coordinator.shell._watch.check() if problem.hinders]


@pytest.mark.parametrize("coordinator", ["another-fleet"], indirect=True)
def test_at_another_fleets_broker_it_says_that_nothing_is_carried(
    coordinator: MemoryCoordinator, shift: list[float]
) -> None:
    coordinator.until(lambda: coordinator.shell._parts.connection.connected)
    assert problems(coordinator) == []
    shift[0] += ECHO_SECONDS
    (told,) = problems(coordinator)
    assert f"carries nothing of fleet {FLEET}" in told
    assert "It is another fleet's broker" in told


@pytest.mark.parametrize("coordinator", [str(FLEET)], indirect=True)
def test_at_its_own_broker_it_hears_itself(
    coordinator: MemoryCoordinator, shift: list[float]
) -> None:
    coordinator.until(lambda: not coordinator.shell._rivals.unheard)
    problems(coordinator)
    shift[0] += ECHO_SECONDS
    assert problems(coordinator) == []
