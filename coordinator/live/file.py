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
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from sqlite_utils import Database

from fleetledger.coordinator.live.day import DayTables
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    HistogramNow,
    LiveSnapshot,
    serves,
)
from fleetledger.coordinator.paths import live_path

VERSION = 2
"""Of the tables; a file of another version is made anew by the writer, and unread by readers."""

_Point = TypeVar("_Point")


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
            for (body,) in self._db.execute("SELECT body FROM now").fetchall():
                self._day.ended(CoordinatorNow.model_validate_json(body).written_ns)

    def write(self, snapshot: LiveSnapshot) -> None:
        """Write a snapshot over the one before, in one transaction.

        Devices that are not in it stay as they were written.
        """
        try:
            with self._db.conn:
                self._write(snapshot)
        except sqlite3.Error:
            self._day.begin_anew()
            raise

    def _write(self, snapshot: LiveSnapshot) -> None:
        now, devices = snapshot.coordinator, snapshot.devices.values()
        self._db.table("now").upsert({"id": 0, "body": _text(now)}, pk="id")
        self._db.table("device").upsert_all(map(_device_row, devices), pk="device")
        meters: list[CounterNow | HistogramNow] = [*snapshot.counters, *snapshot.histograms]
        self._db.execute("DELETE FROM meter")
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
    with suppress(sqlite3.Error, ValidationError), closing(_read_only(home)) as db:
        db.execute("BEGIN")
        if _version(db) != VERSION:
            return None
        rows = db.execute("SELECT body FROM now").fetchall()
        if not rows:
            return None
        found = [
            DeviceNow.model_validate_json(body)
            for (body,) in db.execute("SELECT body FROM device ORDER BY device")
        ]
        return LiveSnapshot(
            coordinator=CoordinatorNow.model_validate_json(rows[0][0]),
            devices={item.device: item for item in found},
            counters=tuple(map(CounterNow.model_validate_json, _meters(db, CounterNow))),
            histograms=tuple(map(HistogramNow.model_validate_json, _meters(db, HistogramNow))),
        )
    return None


@dataclass(frozen=True)
class PresenceNow:
    """Who is there."""

    online: frozenset[str] = frozenset()
    serves: bool = False
    """Whether a coordinator does; where none does, nobody knows who is there."""


def read_presence(home: Path, time_ns: int) -> PresenceNow:
    """Return who is there, and no more: for who asks every second."""
    with suppress(sqlite3.Error, ValidationError), closing(_read_only(home)) as db:
        db.execute("BEGIN")
        if _version(db) != VERSION:
            return PresenceNow()
        for (body,) in db.execute("SELECT body FROM now"):
            if not serves(CoordinatorNow.model_validate_json(body), time_ns):
                return PresenceNow()
            found = db.execute("SELECT device FROM device WHERE online")
            return PresenceNow(frozenset(name for (name,) in found), serves=True)
    return PresenceNow()


def read_day(home: Path, read: Callable[[sqlite3.Connection], list[_Point]]) -> list[_Point]:
    """Return what `read` finds of the last day; nothing where none was kept."""
    with suppress(sqlite3.Error, ValidationError), closing(_read_only(home)) as db:
        return read(db) if _version(db) == VERSION else []
    return []


def _open(path: Path) -> Database:
    connection = sqlite3.connect(path, timeout=0.1)
    db = Database(connection)
    if _version(connection) not in {0, VERSION}:
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
    with db.conn:
        db.execute("DELETE FROM device")
        db.execute(f"PRAGMA user_version = {VERSION}")
    return db


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _read_only(home: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{live_path(home).absolute().as_uri()}?mode=ro", uri=True, timeout=2)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _meters(db: sqlite3.Connection, kind: type[BaseModel]) -> list[str]:
    query = "SELECT body FROM meter WHERE kind = ? ORDER BY rowid"
    return [body for (body,) in db.execute(query, [kind.__name__])]


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
