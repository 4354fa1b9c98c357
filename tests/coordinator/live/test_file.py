"""What the coordinator says of the fleet just now is read by other programs while it writes."""

import sqlite3
from pathlib import Path

import pytest

from fleetledger.coordinator.live.day import presence_changes
from fleetledger.coordinator.live.file import LiveFile, read_day, read_live
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    HistogramNow,
    LiveSnapshot,
    serves,
)
from fleetledger.coordinator.paths import live_path
from fleetledger.schemas.health import DeviceHealth, ThermalZone
from fleetledger.schemas.values import BootId, DeviceId

DEVICE = DeviceId("dev-1")
START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def snapshot(seconds: float = 0, *, online: bool = True, celsius: float = 50) -> LiveSnapshot:
    time_ns = START_NS + int(seconds * SECOND_NS)
    device = DeviceNow(
        device=DEVICE,
        online=online,
        boot=BootId("0123456789abcdef"),
        heard_ns=time_ns,
        outbox=2,
        health=DeviceHealth(temperatures=(ThermalZone(zone="cpu", celsius=celsius),)),
        health_ns=time_ns,
    )
    return LiveSnapshot(
        coordinator=CoordinatorNow(
            fleet="orchard", version="1", pid=1, started_ns=START_NS, written_ns=time_ns
        ),
        devices={DEVICE: device},
        counters=(CounterNow(name="messages", labels={"result": "accepted"}, value=seconds),),
        histograms=(HistogramNow(name="commit", bounds=(0.1, 1), counts=(3, 1, 0), total=0.5),),
    )


def test_what_is_written_is_read(tmp_path: Path):
    LiveFile(tmp_path).write(snapshot())
    assert read_live(tmp_path) == snapshot()


def test_the_newest_snapshot_replaces_the_one_before(tmp_path: Path):
    file = LiveFile(tmp_path)
    for seconds, online in ((0, True), (2, False)):
        file.write(snapshot(seconds, online=online))
    assert read_live(tmp_path) == snapshot(2, online=False)


def test_there_is_nothing_to_read_where_none_was_written(tmp_path: Path):
    assert read_live(tmp_path) is None
    assert read_day(tmp_path, presence_changes) == []
    LiveFile(tmp_path)
    assert read_live(tmp_path) is None


def test_a_reader_keeps_what_it_began_to_read(tmp_path: Path):
    file = LiveFile(tmp_path)
    file.write(snapshot())
    reader = sqlite3.connect(f"{live_path(tmp_path).as_uri()}?mode=ro", uri=True)
    reader.execute("BEGIN")
    before = reader.execute("SELECT body FROM now").fetchall()
    file.write(snapshot(2))
    assert reader.execute("SELECT body FROM now").fetchall() == before


@pytest.mark.parametrize("damage", ["not SQLite", "another version"])
def test_a_file_that_cannot_be_used_is_made_anew(tmp_path: Path, damage: str):
    path = live_path(tmp_path)
    if damage == "not SQLite":
        path.write_bytes(b"x" * 5000)
    else:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
    assert read_live(tmp_path) is None
    LiveFile(tmp_path).write(snapshot())
    assert read_live(tmp_path) == snapshot()


def test_nobody_is_online_because_an_earlier_coordinator_saw_it(tmp_path: Path):
    LiveFile(tmp_path).write(snapshot())
    LiveFile(tmp_path).write(snapshot(60).model_copy(update={"devices": {}}))
    found = read_live(tmp_path)
    assert found is not None
    assert found.devices == {}


def test_a_coordinator_serves_while_it_writes():
    now = snapshot().coordinator
    assert serves(now, START_NS + 5 * SECOND_NS)
    assert not serves(now, START_NS + 60 * SECOND_NS)
    assert not serves(now.model_copy(update={"stopped": True}), START_NS)
