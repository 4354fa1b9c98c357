"""What the proxy remembers, on the disk: one transaction for what was decided together.

letter   a row for every message with gradients; bytes and device only as long as they are needed
scored   one row: the last order that was scored, its answer, and the method's state after it

What is deleted is overwritten, and does not stay in the write-ahead log: gradients, and the
pictures in the state, tell of single images.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from sqlite_utils import Database

from fleetledger.coordinator.errors import ProxyError
from fleetledger.coordinator.proxy import records
from fleetledger.runtime.table_layout import lay_out

_HELD = TypeAdapter(records.HeldGradients)
_SCORED = TypeAdapter(records.ScoredOrder)
LAYOUT = 1
_TABLES = """
CREATE TABLE letter (name TEXT PRIMARY KEY, held TEXT NOT NULL, data BLOB) STRICT, WITHOUT ROWID;
CREATE TABLE scored (
    one INTEGER PRIMARY KEY CHECK (one = 1), scored TEXT NOT NULL, state BLOB NOT NULL
) STRICT;
"""
_WRITE = """
INSERT INTO letter VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE
SET held = excluded.held, data = CASE WHEN ? THEN data END
"""


class ProxyStore:
    """Open for one thread; WAL with `synchronous=FULL`: what is committed outlives a power cut."""

    def __init__(self, path: Path) -> None:
        """Open the database, making it where there is none; raise `ProxyError`."""
        self._path = path
        with self._translated("opened"):
            path.touch(mode=0o600)
            self._db = Database(str(path))
            self._db.conn.executescript(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON"
            )
            found = lay_out(self._db.conn, _TABLES, LAYOUT)
        if found != LAYOUT:
            raise self._unreadable(f"layout {found}, and this program has {LAYOUT}")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def load(self) -> records.ProxyRecords:
        """Return what was written; raise `ProxyError` where it cannot be read."""
        with self._translated("read"):
            letters = self._db.execute("SELECT held FROM letter").fetchall()
        scored = self._one("SELECT CAST(scored AS BLOB) FROM scored")
        try:
            gradients = [_HELD.validate_json(held) for (held,) in letters]
            return records.ProxyRecords(
                {held.name: held for held in gradients},
                None if scored is None else _SCORED.validate_json(scored),
            )
        except (ValidationError, ValueError) as error:
            raise self._unreadable(str(error)) from error

    def commit(self, changes: Sequence[records.Change]) -> None:
        """Write all changes in one transaction; raise `ProxyError`, and write nothing, if not."""
        with self._translated("written"):
            with self._db.atomic():
                for change in changes:
                    self._write(change)
            if any(isinstance(one, records.OrderScored) or not one.held.size for one in changes):
                # Pages of before stay in the log else, with what was just deleted.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def payload(self, name: records.Name) -> bytes:
        """Return the gradients of a message that waits."""
        data = self._one("SELECT data FROM letter WHERE name = ?", str(name))
        if data is None:
            raise ProxyError(f"{self._path}: gradients {name.payload.short} are not there any more")
        return data

    def state(self) -> bytes | None:
        """Return the method's state; None before any."""
        return self._one("SELECT state FROM scored")

    def _one(self, query: str, *values: str) -> bytes | None:
        with self._translated("read"):
            row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _write(self, change: records.Change) -> None:
        match change:
            case records.GradientsStored(held, data):
                row = [str(held.name), _HELD.dump_json(held).decode(), data, held.size]
                self._db.execute(_WRITE, row)
            case records.OrderScored(scored, state):
                row = [_SCORED.dump_json(scored).decode(), state]
                self._db.execute("INSERT OR REPLACE INTO scored VALUES (1, ?, ?)", row)

    def _unreadable(self, why: str) -> ProxyError:
        return ProxyError(
            f"{self._path}: holds what this program cannot read ({why}); use the program that "
            "wrote it, or move the file away: gradients of this task are lost then"
        )

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ProxyError(
                f"{self._path}: cannot be {verb}: {error}; look at the disk's space and health"
            ) from error
