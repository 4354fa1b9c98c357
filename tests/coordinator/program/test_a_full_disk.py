"""A coordinator whose disk is full waits, cheaply and quietly; it loses and doubles nothing."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.core import inputs, state_fold
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.errors import InboxError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home
from tests.small_disk import SmallDisk, small_disk

HISTORY = 10_000
"""Entries of the ledger when its disk fills."""
MINUTES = 10
DEVICES = ("dev-1", "dev-2", "dev-3")


class Leaping:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self._leapt = 0.0

    def clock(self) -> Clock:
        return Clock(
            lambda: time.monotonic() + self._leapt,
            lambda: time.time_ns() + round(self._leapt * 1e9),
            self.leap,
        )

    def leap(self, seconds: float) -> None:
        self._leapt += seconds


@contextmanager
def refusing(coordinator: MemoryCoordinator) -> Iterator[None]:
    """Let the ledger's file grow no further, as SQLite sees a full disk."""
    db = coordinator.engine.ledger.db
    db.execute("PRAGMA cache_size = 10")
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    db.execute("PRAGMA query_only = ON")
    yield
    db.execute("PRAGMA query_only = OFF")
    db.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    disk.fill()
    yield
    disk.empty()


def long_history(home: Path) -> None:
    """Make a coordinator with many devices, of which a few will speak."""
    write_home(home)
    engine = LedgerEngine.open(home, Rules())
    names = [*DEVICES, *(f"other-{number}" for number in range(HISTORY - len(DEVICES)))]
    admitted = [AdmitDevice(device=DeviceId(name)) for name in names]
    engine.process([inputs.OperatorCommand(secrets.token_hex(8), item) for item in admitted])
    engine.close()


class Counting:
    """Counts what is read of the ledger, and what is replayed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = self.replayed = 0
        read, read_entry = LedgerReader._rows, state_fold.read_entry

        def counted_rows(reader: LedgerReader, *query: Any) -> list[Any]:
            rows = read(reader, *query)
            self.rows += len(rows)
            return rows

        def counted_entry(kind: str, body: dict[str, Any]) -> EntryBody:
            self.replayed += 1
            return read_entry(kind, body)

        monkeypatch.setattr(LedgerReader, "_rows", counted_rows)
        monkeypatch.setattr(state_fold, "read_entry", counted_entry)


@pytest.fixture(params=["refused by SQLite", "a full file system"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Path, Callable[[MemoryCoordinator], Any]]]:
    if request.param == "refused by SQLite":
        yield tmp_path / "home", refusing
        return
    with small_disk(tmp_path / "disk", 64) as small:
        yield small.folder / "home", lambda _coordinator: full(small)


def test_nothing_that_is_done_while_the_disk_is_full_grows_with_history(
    disk: tuple[Path, Callable[[MemoryCoordinator], Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    home, made_full = disk
    home.mkdir()
    long_history(home)
    broker, leaping = InMemoryBroker(), Leaping()
    coordinator = MemoryCoordinator(home, broker, clock=leaping.clock())
    coordinator.begin(classes=("cat",))
    devices = [ScriptedDevice(name, broker, coordinator) for name in DEVICES]
    for device in devices:
        device.born()
    coordinator.until(lambda: coordinator.kinds().count("device.born") == len(DEVICES))
    size = coordinator.engine.ledger.size
    caplog.set_level(logging.INFO)
    counting = Counting(monkeypatch)
    with made_full(coordinator):
        caplog.clear()
        devices[0].send(Nothing(stage=1))
        coordinator.until(lambda: coordinator.engine.waits)
        for device in devices[1:]:
            device.send(Nothing(stage=1))
        steps = 0
        end = coordinator.shell._parts.clock.seconds() + MINUTES * 60
        while coordinator.shell._parts.clock.seconds() < end:
            coordinator.shell.step()
            steps += 1
        assert coordinator.engine.ledger.size == size
        assert not any(answered(device) for device in devices)
    refused = [record.getMessage() for record in caplog.records]
    assert len(refused) == 1, refused
    assert "held up by it: " in refused[0]
    assert counting.replayed == 0
    assert counting.rows < 20 * MINUTES * 60 / 5, "a few rows for each of the rare attempts"
    for device in devices:
        assert isinstance(device.wait_for(Receipt).answer, Accepted)
    assert coordinator.kinds()[size:].count("nothing.reported") == len(DEVICES)
    assert sum("written after all" in record.getMessage() for record in caplog.records) == 1
    for device in devices:
        device.close()
    state = coordinator.engine.core.state
    coordinator.close()
    monkeypatch.undo()
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        assert verify(ledger, Blobs(ledger, BlobStore(blob_folder(home)))).ok
    assert LedgerEngine.open(home, Rules()).core.state == state


def answered(device: ScriptedDevice) -> bool:
    device._drain()
    return any(item.header.kind == Receipt.kind for item in device.received)


def test_a_command_whose_answer_the_disk_refuses_is_answered_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_home(tmp_path)
    leaping = Leaping()
    coordinator = MemoryCoordinator(tmp_path, InMemoryBroker(), clock=leaping.clock())
    inbox, answer = OperatorInbox(tmp_path), OperatorInbox.answer

    def refused(*_: object, **__: object) -> None:
        raise InboxError("operator.db: cannot be written now: database or disk is full")

    monkeypatch.setattr(OperatorInbox, "answer", refused)
    ticket = inbox.submit(AdmitDevice(device=DeviceId("dev-1")))
    coordinator.until(lambda: coordinator.kinds() == ["device.admitted"])
    end = coordinator.shell._parts.clock.seconds() + 60
    while coordinator.shell._parts.clock.seconds() < end:
        coordinator.shell.step(0)
        leaping.leap(0.2)
    assert sum("waits for an answer" in record.getMessage() for record in caplog.records) == 1
    monkeypatch.setattr(OperatorInbox, "answer", answer)

    def answered_now() -> bool:
        leaping.leap(0.2)
        return inbox.answer_to(ticket) is not None

    coordinator.until(answered_now)
    assert coordinator.kinds() == ["device.admitted"]
    coordinator.close()
    inbox.close()
