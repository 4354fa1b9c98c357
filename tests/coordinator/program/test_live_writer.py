"""A coordinator writes down who is there, and goes on where it cannot."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.assembly import (
    AssembledCoordinator,
    CoordinatorSurroundings,
    assemble,
)
from fleetledger.coordinator.live.file import LiveFile, read_live
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.live.snapshot import LiveSnapshot
from fleetledger.coordinator.paths import live_path
from fleetledger.coordinator.program.live_writer import WRITE_SECONDS, LiveWriter
from fleetledger.coordinator.program.shell import Shell
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.harness import Bench
from tests.coordinator.shell_harness import FLEET, write_home

START_NS = 1_700_000_000_000_000_000


class Hands:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.at = 100.0
        self.clock = Clock(
            seconds=lambda: self.at, time_ns=lambda: START_NS + int(self.at * 1e9), sleep=self.turn
        )

    def turn(self, seconds: float) -> None:
        self.at += seconds


class FullDisk:
    """A file that takes nothing while the disk is full."""

    def __init__(self, home: Path) -> None:
        self.file = LiveFile(home)
        self.full = True

    def is_there(self) -> bool:
        return self.file.is_there()

    def write(self, snapshot: LiveSnapshot) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self.file.write(snapshot)

    def close(self) -> None:
        self.file.close()


@pytest.fixture
def hands() -> Hands:
    return Hands()


def write(writer: LiveWriter) -> None:
    writer.write(Bench().core, 3, Meters(), 0)


def test_it_is_written_every_two_seconds(tmp_path: Path, hands: Hands) -> None:
    writer = LiveWriter(lambda: LiveFile(tmp_path), FLEET, hands.clock)
    assert writer.is_due()
    write(writer)
    assert not writer.is_due()
    hands.turn(WRITE_SECONDS)
    assert writer.is_due()
    found = read_live(tmp_path)
    assert found is not None
    assert (found.coordinator.fleet, found.coordinator.ledger_size) == (FLEET, 3)
    writer.close()


def test_a_full_disk_is_told_once_and_tried_again(
    tmp_path: Path, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = FullDisk(tmp_path)
    writer = LiveWriter(lambda: disk, FLEET, hands.clock)
    for _ in range(3):
        write(writer)
        hands.turn(60)
    assert ["disk is full" in line for line in caplog.messages] == [True]
    disk.full = False
    write(writer)
    assert "written after all" in caplog.messages[-1]
    assert read_live(tmp_path) is not None
    writer.close()


def test_what_a_full_disk_refused_is_written_with_what_came_later(
    tmp_path: Path, hands: Hands
) -> None:
    disk, bench = FullDisk(tmp_path), Bench()
    bench.begin("dev-1")
    writer = LiveWriter(lambda: disk, FLEET, hands.clock)
    writer.write(bench.core, 3, Meters(), 0)
    disk.full = False
    hands.turn(60)
    writer.write(bench.core, 3, Meters(), 0)
    found = read_live(tmp_path)
    assert found is not None
    assert set(found.devices) == {DeviceId("dev-1")}
    writer.close()


def test_who_takes_long_writes_seldom(tmp_path: Path, hands: Hands) -> None:
    class Slow(FullDisk):
        full = False

        def write(self, snapshot: LiveSnapshot) -> None:
            hands.turn(1.0)
            self.file.write(snapshot)

    slow = Slow(tmp_path)
    writer = LiveWriter(lambda: slow, FLEET, hands.clock)
    write(writer)
    hands.turn(10.0)
    assert not writer.is_due()
    hands.turn(10.0)
    assert writer.is_due(), "a twentieth of the time"
    writer.close()


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, hands: Hands) -> None:
    live_path(tmp_path).mkdir()
    writer = LiveWriter(lambda: LiveFile(tmp_path), FLEET, hands.clock)
    write(writer)
    live_path(tmp_path).rmdir()
    write(writer)
    assert read_live(tmp_path) is not None
    writer.close()


def test_a_file_that_somebody_deleted_is_made_anew(tmp_path: Path, hands: Hands) -> None:
    writer = LiveWriter(lambda: LiveFile(tmp_path), FLEET, hands.clock)
    write(writer)
    live_path(tmp_path).unlink()
    write(writer)
    assert read_live(tmp_path) is not None
    writer.close()


@pytest.fixture
def made(tmp_path: Path, hands: Hands) -> Iterator[AssembledCoordinator]:
    write_home(tmp_path, map_width=40, form="exact")
    broker = InMemoryBroker()
    around = CoordinatorSurroundings(
        lambda role, will: broker.connection(f"coordinator.{role}", will=will), clock=hands.clock
    )
    coordinator = assemble(tmp_path, around)
    coordinator.start()
    yield coordinator
    coordinator.close()


def step(shell: Shell, hands: Hands) -> None:
    hands.turn(WRITE_SECONDS)
    shell.step(0)


def test_a_coordinator_says_that_it_serves_and_that_it_ended(
    tmp_path: Path, made: AssembledCoordinator, hands: Hands
) -> None:
    for _ in range(3):
        step(made.shell, hands)
    found = read_live(tmp_path)
    assert found is not None
    assert found.coordinator.connected
    assert not found.coordinator.stopped
    assert found.coordinator.written_ns == hands.clock.time_ns()
    made.shell.stop()
    made.shell.say_goodbye()
    found = read_live(tmp_path)
    assert found is not None
    assert found.coordinator.stopped
    assert not found.coordinator.connected


def test_a_coordinator_that_ends_because_of_an_error_does_not_say_that_it_ended(
    tmp_path: Path, made: AssembledCoordinator, hands: Hands
) -> None:
    step(made.shell, hands)
    made.shell.say_goodbye()
    found = read_live(tmp_path)
    assert found is not None
    assert not found.coordinator.stopped
