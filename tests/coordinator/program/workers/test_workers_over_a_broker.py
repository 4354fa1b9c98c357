"""A coordinator and its workers at a real broker: who hears what devices say, and how often."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.speed.contribution_rate.load import (
    FLEET,
    Plan,
    enrol,
    make_home,
    make_keys,
    make_messages,
    signed,
)
from fleetledger.coordinator.assembly import CoordinatorSurroundings, assemble
from fleetledger.coordinator.program.workers.connection import CheckedMessage, SharedConnection
from fleetledger.coordinator.serve import mqtt_connect, worker_plans
from fleetledger.coordinator.settings import load
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.presence import CoordinatorBirth
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import Digest
from fleetledger.transport import interface
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("mosquitto")]

PLAN = Plan(1, devices=1, parts=40, window=1, map_width=8)
(DEVICE,) = PLAN.names
TOPICS = FleetTopics(FLEET)
PATIENCE = 120.0
TURN = 0.02


class Fleet:
    """A coordinator with two workers, and a device that says what a test wants it to."""

    def __init__(self, folder: Path, broker: MosquittoBroker) -> None:
        home = folder / "home"
        lineage = make_home(home, PLAN, broker)
        self._keys = make_keys(PLAN)
        enrol(home, self._keys)
        self._messages = make_messages(PLAN, lineage)
        self._said = 0
        self.came: Counter[str] = Counter()
        """Messages of the device by who heard them, and what a worker could say of them."""
        self.births: list[Digest] = []
        self.receipts: list[int] = []
        """Parts that have a receipt."""
        settings = load(home).model_copy(update={"intake_workers": 2})
        plans = worker_plans(home, settings)
        around = CoordinatorSurroundings(mqtt_connect(home, settings), workers=plans)
        self._coordinator = assemble(home, around)
        connection = self._coordinator.shell._parts.connection
        assert isinstance(connection, SharedConnection)
        self._shared, self._next = connection, connection.next_event
        connection.next_event = self._counted  # type: ignore[method-assign]
        user, password = broker.credentials(DEVICE)
        at = MqttSettings(client_id="device", port=broker.port, user=user, password=password)
        self._device = MqttConnection(at)
        self._device.subscribe(*TOPICS.to_device(DEVICE, "rcpt"), TOPICS.coordinator_state)
        self._device.start()
        self._device.wait_connected(PATIENCE)
        self._coordinator.start()
        self.until(lambda: self.births)

    def close(self) -> None:
        self._coordinator.shell.say_goodbye()
        self._coordinator.close()
        self._device.stop()

    def until(self, condition: Callable[[], object]) -> None:
        """Let all of them take turns until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, (self.came, self.receipts)
            self._coordinator.shell.step(TURN)
            while (event := self._device.next_event(0)) is not None:
                if isinstance(event, interface.IncomingMessage):
                    self._hear(event)

    def says(self, parts: int) -> None:
        """Have the device give so many more parts."""
        last = self._said + parts
        given = [self._messages[0][self._said : last]]
        self._said = last
        for message in signed(given, self._keys, self.births[-1])[0]:
            topic = TOPICS.up(DEVICE, "msg")
            self._device.publish(interface.OutgoingMessage(topic, message))

    @property
    def answered(self) -> bool:
        """Whether all that was said has its receipt."""
        return len(set(self.receipts)) == self._said

    @property
    def workers(self) -> tuple[int, ...]:
        return self._shared._workers.processes

    @property
    def direct(self) -> bool:
        """Whether the broker may still give the coordinator itself what the device says."""
        control = self._shared._control
        assert isinstance(control, MqttConnection)
        return self._shared._direct or bool(control._leaving)

    def _hear(self, event: interface.IncomingMessage) -> None:
        self._device.acknowledge(event)
        envelope = decode(event.payload)
        if envelope.header.kind == CoordinatorBirth.kind and not event.retained:
            self.births.append(envelope.message_id)
        if envelope.header.kind == Receipt.kind:
            self.receipts.append(envelope.read(Receipt).key.part)

    def _counted(self, seconds: float) -> interface.Event | None:
        event = self._next(seconds)
        if isinstance(event, interface.IncomingMessage) and event.topic.endswith("/msg"):
            by = "direct"
            if isinstance(event, CheckedMessage):
                by = "checked" if event.key is not None and event.verdict is not None else "plain"
            self.came[by] += 1
        return event


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with MosquittoBroker(tmp_path / "broker", PLAN.names) as broker:
        made = Fleet(tmp_path, broker)
        yield made
        made.close()


def test_workers_hear_all_of_it_once_and_know_key_and_method_from_the_first_message(
    fleet: Fleet,
) -> None:
    """The control connection hears none, though it has heard the device in the same session."""
    fleet.until(lambda: not fleet.direct)
    fleet.says(20)
    fleet.until(lambda: fleet.answered)
    assert fleet.came == {"checked": 20}
    assert sorted(fleet.receipts) == list(range(20))


def test_when_the_last_worker_dies_devices_are_heard_and_asked_to_say_it_again(
    fleet: Fleet,
) -> None:
    fleet.until(lambda: not fleet.direct)
    births = len(fleet.births)
    killed = fleet.workers
    for process in killed:
        os.kill(process, signal.SIGKILL)
    fleet.until(lambda: fleet.direct)
    fleet.until(lambda: len(fleet.births) > births)
    fleet.says(5)
    fleet.until(lambda: fleet.answered)
    assert fleet.came["direct"] + fleet.came["checked"] >= 5
    fleet.until(lambda: not fleet.direct)
    assert not set(killed) & set(fleet.workers)
    fleet.says(5)
    fleet.until(lambda: fleet.answered)  # whatever both have heard is taken by now
    heard = fleet.came["direct"]
    fleet.says(5)
    fleet.until(lambda: fleet.answered)
    assert fleet.came["direct"] == heard
