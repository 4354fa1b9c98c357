"""How often the coordinator says to all devices that it is there, and what it asks of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.assembly import (
    AssembledCoordinator,
    CoordinatorSurroundings,
    assemble,
)
from fleetledger.coordinator.core.inputs import OperatorCommand
from fleetledger.coordinator.program.shell import births_spread
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.presence import CoordinatorBirth, Heartbeat
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import FLEET, write_home

TOPICS = FleetTopics(FLEET)
DEVICE = DeviceId("camera-1")
LOST = Heartbeat(
    welcomed=False,
    outbox_length=0,
    waiting_images=0,
    resident_bytes=1,
    bytes_up=1,
    bytes_down=1,
)
"""What says a device whose birth was lost."""


@pytest.mark.parametrize(
    ("devices", "seconds"),
    [(0, None), (1, None), (2500, None), (3000, 6), (100_000, 200), (10_000_000, 3600)],
)
def test_births_of_many_devices_are_spread(devices: int, seconds: int | None) -> None:
    assert births_spread(devices) == seconds


class Office:
    """A coordinator on a clock that the test turns, and somebody who listens."""

    def __init__(self, home: Path) -> None:
        write_home(home)
        self.at = 0.0
        clock = Clock(
            seconds=lambda: self.at,
            time_ns=lambda: 1_700_000_000_000_000_000 + int(self.at * 1e9),
            sleep=lambda seconds: None,
        )
        broker = InMemoryBroker()
        around = CoordinatorSurroundings(
            lambda role, will: broker.connection(f"coordinator.{role}", will=will), clock=clock
        )
        self.coordinator: AssembledCoordinator = assemble(home, around)
        self.device = broker.connection(f"{DEVICE}.control")
        self.device.subscribe(TOPICS.coordinator_state)
        self.device.start()
        self.sender = Sender(FLEET, DEVICE, BootId.fresh())
        self.coordinator.start()

    def lost(self) -> None:
        data = encode(self.sender.seal(LOST, sent_ms=0))
        self.device.publish(OutgoingMessage(TOPICS.up(DEVICE, "hb"), data, qos=0))

    def turn(self, seconds: float) -> int:
        """Let time pass; return how often the coordinator announced itself meanwhile."""
        found, end = 0, self.at + seconds
        while self.at < end:
            self.at += 0.1
            self.coordinator.shell.step(0)
            while (event := self.device.next_event(0)) is not None:
                if isinstance(event, IncomingMessage):
                    kind = decode(event.payload).header.kind
                    found += kind == CoordinatorBirth.kind
        return found


def test_all_are_told_once_a_second_at_most_however_many_lost_their_births(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    assert office.turn(2.0) == 1
    engine = office.coordinator.local.engine
    engine.process([OperatorCommand("admit", AdmitDevice(device=DEVICE))])
    announced = 0
    for _ in range(50):
        office.lost()
        announced += office.turn(0.1)
    assert 4 <= announced <= 6, "in five seconds"
    office.turn(3.0)
    assert office.turn(5.0) == 0, "nobody asks for more"
    office.coordinator.close()
