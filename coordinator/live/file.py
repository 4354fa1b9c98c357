"""`live.db`, a small SQLite file beside the ledger that a serving coordinator rewrites.

    now        one row: the coordinator
    device     a row for each device that was seen
    meter      counters and histograms

and those of the last day, which `day` keeps.

It is written without waiting for the disk, and may be deleted at any time: nothing decides by it.
A reader sees one state throughout, and needs no lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from fleetledger.coordinator.live.day import DayTables, Model, bodies
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    HistogramNow,
    LiveSnapshot,
    serves,
)
from fleetledger.coordinator.paths import live_path
from fleetledger.runtime.table_layout import layout_of

if TYPE_CHECKING:
    from sqlite_utils import Database

VERSION = 2
"""Of the tables; a file of another version is made anew by the writer, and unread by readers."""

_Point = TypeVar("_Point")
_Found = TypeVar("_Found")


class LiveFile:
    """The file as its one writer has it; every method raises `sqlite3.Error` where it cannot."""

    def __init__(self, home: Path) -> None:
        """Open the file in `home`; make it anew where it is unreadable or of another version."""
        self._path = path = live_path(home)
        try:
            self._db = _open(path)
        except sqlite3.OperationalError:
            raise  # a full disk or a lock is no fault of the file
        except sqlite3.DatabaseError:
            _delete(path)
            self._db = _open(path)
        self._inode = path.stat().st_ino
        self._day = DayTables(self._db)
        with self._db.conn, suppress(ValidationError):
            for now in bodies(self._db.conn, CoordinatorNow, "now"):
                self._day.ended(now.written_ns)

    def write(self, snapshot: LiveSnapshot) -> None:
        """Write a snapshot over the one before, in one transaction.

        Devices that are not in it stay as they were written.
        """
        try:
            with self._db.atomic():
                self._write(snapshot)
        except sqlite3.Error:
            self._day.begin_anew()
            raise

    def _write(self, snapshot: LiveSnapshot) -> None:
        now, devices = snapshot.coordinator, snapshot.devices.values()
        self._db.table("now").upsert({"id": 0, "body": _text(now)}, pk="id")
        self._db.table("device").upsert_all(map(_device_row, devices), pk="device")
        meters: list[CounterNow | HistogramNow] = [*snapshot.counters, *snapshot.histograms]
        self._db.table("meter").delete_where()
        self._db.table("meter").insert_all(
            {"kind": type(meter).__name__, "name": meter.name, "body": _text(meter)}
            for meter in meters
        )
        self._day.add(snapshot)

    def is_there(self) -> bool:
        """Whether it is still where readers look for it: anybody may delete it."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def online_now(home: Path, now_ns: int) -> frozenset[str] | None:
    """Return who is there now; None where no coordinator serves, so that nobody knows."""
    live = read_live(home)
    if live is None or not serves(live.coordinator, now_ns):
        return None
    return frozenset(str(name) for name, device in live.devices.items() if device.online)


def read_live(home: Path) -> LiveSnapshot | None:
    """Return what a coordinator in `home` wrote last; None where there is nothing to read."""
    return _read(home, _snapshot, None)


@dataclass(frozen=True)
class PresenceNow:
    """Who is there."""

    online: frozenset[str] = frozenset()
    serves: bool = False
    """Whether a coordinator does; where none does, nobody knows who is there."""


def read_presence(home: Path, time_ns: int) -> PresenceNow:
    """Return who is there, and no more: for who asks every second."""
    return _read(home, partial(_presence, time_ns=time_ns), PresenceNow())


def read_day(home: Path, read: Callable[[sqlite3.Connection], list[_Point]]) -> list[_Point]:
    """Return what `read` finds of the last day; nothing where none was kept."""
    return _read(home, read, [])


def _read(home: Path, read: Callable[[sqlite3.Connection], _Found], nothing: _Found) -> _Found:
    """Return what `read` finds in one state of the file, or `nothing` where that is unreadable."""
    address = f"{live_path(home).absolute().as_uri()}?mode=ro"
    with (
        suppress(sqlite3.Error, ValidationError),
        closing(sqlite3.connect(address, uri=True, timeout=2)) as db,
    ):
        db.execute("BEGIN")
        if layout_of(db) == VERSION:
            return read(db)
    return nothing


def _snapshot(db: sqlite3.Connection) -> LiveSnapshot | None:
    for now in bodies(db, CoordinatorNow, "now"):
        devices = bodies(db, DeviceNow, "device ORDER BY device")
        return LiveSnapshot(
            coordinator=now,
            devices={item.device: item for item in devices},
            counters=tuple(_meters(db, CounterNow)),
            histograms=tuple(_meters(db, HistogramNow)),
        )
    return None


def _presence(db: sqlite3.Connection, time_ns: int) -> PresenceNow:
    if not any(serves(now, time_ns) for now in bodies(db, CoordinatorNow, "now")):
        return PresenceNow()
    found = db.execute("SELECT device FROM device WHERE online")
    return PresenceNow(frozenset(name for (name,) in found), serves=True)


def _open(path: Path) -> Database:
    from sqlite_utils import Database  # noqa: PLC0415 - heavy, and readers need none

    connection = sqlite3.connect(path, timeout=0.1)
    db = Database(connection)
    if layout_of(connection) not in {0, VERSION}:
        db.close()
        raise sqlite3.DatabaseError(f"{path}: of another version")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    db.table("now").create({"id": int, "body": str}, pk="id", if_not_exists=True)
    db.table("device").create(
        {"device": str, "online": int, "heard_ns": int, "outbox": int, "body": str},
        pk="device",
        if_not_exists=True,
    )
    db.table("meter").create({"kind": str, "name": str, "body": str}, if_not_exists=True)
    # Who was there when an earlier coordinator ended may not be there now.
    with db.atomic():
        db.table("device").delete_where()
        db.execute(f"PRAGMA user_version = {VERSION}")
    return db


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _meters(db: sqlite3.Connection, kind: type[Model]) -> list[Model]:
    return bodies(db, kind, "meter WHERE kind = ? ORDER BY rowid", kind.__name__)


def _device_row(item: DeviceNow) -> dict[str, object]:
    return {
        "device": item.device,
        "online": int(item.online),
        "heard_ns": item.heard_ns,
        "outbox": item.outbox,
        "body": _text(item),
    }


def _text(model: BaseModel) -> str:
    return model.model_dump_json(exclude_none=True)
