"""One connection of a coordinator and its workers: who waits is woken, and somebody hears."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.program.workers.connection import Facts, SharedConnection
from fleetledger.coordinator.program.workers.processes import IntakeWorkers
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.interface import (
    Connected,
    Event,
    IncomingMessage,
    OutgoingMessage,
    Subscribed,
)
from fleetledger.transport.memory import InMemoryBroker, InMemoryConnection

LONG_SECONDS = 3600.0
TOPICS = FleetTopics(FleetId("orchard"))
SHARED = TOPICS.from_every_device("msg")


class Workers(IntakeWorkers):
    """None that are processes; a test says whether one hears."""

    def __init__(self) -> None:
        super().__init__([], wake=lambda: None)

    def listen(self, hears: bool) -> None:
        self._hear = hears


@dataclass
class Fleet:
    """A device, and a coordinator's connection."""

    broker: InMemoryBroker = field(default_factory=InMemoryBroker)
    workers: Workers = field(default_factory=Workers)

    def __post_init__(self) -> None:
        self.control = self.broker.connection("coordinator.control")
        self.device = self.broker.connection("camera-1")
        state = State()
        facts = Facts(TOPICS, lambda: state.keys, lambda: state.lineages)
        self.shared = SharedConnection(self.control, self.workers, facts)
        self.shared.subscribe(*TOPICS.from_every_device("state", "msg"))
        self.shared.start()
        self.device.start()
        assert isinstance(self.shared.next_event(LONG_SECONDS), Connected)

    def says(self, leaf: str) -> Event | None:
        """Return what the coordinator's own connection gives of what a device says."""
        topic = TOPICS.up(DeviceId("camera-1"), "msg" if leaf == "msg" else "state")
        self.shared.next_event(0)
        self.device.publish(OutgoingMessage(topic, b"x"))
        return self.shared.next_event(0)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_whoever_waits_is_woken_at_every_turn(fleet: Fleet) -> None:
    shared = fleet.shared
    for _ in range(4):
        shared.wake()
        assert shared.next_event(LONG_SECONDS) is None
        shared.wake()
        assert shared.next_event(LONG_SECONDS) is None, "the turn after it, too"
    shared.stop()


def test_the_coordinator_hears_devices_until_a_worker_does_and_when_none_does(fleet: Fleet) -> None:
    assert isinstance(fleet.says("msg"), IncomingMessage)
    fleet.workers.listen(True)
    assert fleet.says("msg") is None
    assert isinstance(fleet.says("state"), IncomingMessage), "that is the coordinator's own"
    fleet.workers.listen(False)
    assert isinstance(fleet.says("msg"), IncomingMessage)


def told(control: InMemoryConnection, event: Event) -> None:
    with control._changed:
        control._tell(event)


def test_it_is_told_once_when_devices_may_have_spoken_to_nobody(fleet: Fleet) -> None:
    def given() -> Event | None:
        told(fleet.control, Subscribed(SHARED))
        return fleet.shared.next_event(0) or fleet.shared.next_event(0)

    assert given() is None, "it was heard from the start"
    fleet.workers.listen(True)
    assert given() is None
    fleet.workers.listen(False)
    fleet.shared.next_event(0)
    told(fleet.control, Subscribed(("orchard/other",)))
    assert fleet.shared.next_event(0) is None
    assert given() == Subscribed(SHARED)
    assert given() is None
