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
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.proxy import Scored
from fleetledger.schemas.receipts import Accepted
from fleetledger.schemas.table_layout import lay_out
from fleetledger.schemas.values import DeviceId, Digest

_FINAL: TypeAdapter[records.Final] = TypeAdapter(records.Final)
LAYOUT = 1
_TABLES = """
CREATE TABLE letter (
    stage INTEGER NOT NULL,
    part INTEGER NOT NULL,
    payload TEXT NOT NULL,
    device TEXT,
    method TEXT NOT NULL,
    lineage TEXT NOT NULL,
    size INTEGER NOT NULL,
    answer TEXT,
    data BLOB,
    PRIMARY KEY (stage, part, payload)
) STRICT, WITHOUT ROWID;
CREATE TABLE scored (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    answer TEXT NOT NULL,
    stage INTEGER NOT NULL,
    part INTEGER NOT NULL,
    lineage TEXT NOT NULL,
    weights TEXT NOT NULL,
    task INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;
"""
_WHERE = "stage = ? AND part = ? AND payload = ?"


class ProxyStore:
    """Open for one thread; WAL with `synchronous=FULL`: what is committed outlives a power cut."""

    def __init__(self, path: Path) -> None:
        """Open the database, making it where there is none; raise `ProxyError`."""
        self._path = path
        with self._translated("opened"):
            path.touch(mode=0o600)
            self._db = Database(str(path))
            self._db.execute("PRAGMA journal_mode=WAL").fetchall()
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA secure_delete=ON").fetchall()
            found = lay_out(self._db.conn, _TABLES, LAYOUT)
        if found != LAYOUT:
            raise ProxyError(
                f"{path}: layout {found} of another release, this one has {LAYOUT}; run the "
                "release that wrote it, or move the file away: gradients of this task are lost then"
            )

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def load(self) -> records.ProxyRecords:
        """Return what was written; raise `ProxyError` where it cannot be read."""
        with self._translated("read"):
            rows = self._db.execute(
                "SELECT stage, part, payload, device, method, lineage, size, answer FROM letter"
            ).fetchall()
            try:
                gradients = [_held(row) for row in rows]
                return records.ProxyRecords({held.name: held for held in gradients}, self._scored())
            except (ValidationError, ValueError) as error:
                raise ProxyError(
                    f"{self._path}: holds what this program cannot read ({error}); use the program "
                    "that wrote it, or move the file away: gradients of this task are lost then"
                ) from error

    def commit(self, changes: Sequence[records.Change]) -> None:
        """Write all changes in one transaction; raise `ProxyError`, and write nothing, if not."""
        with self._translated("written"):
            with self._db.atomic():
                for change in changes:
                    self._write(change)
            if any(map(_deletes, changes)):
                # Pages of before stay in the log else, with what was just deleted.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def payload(self, name: records.Name) -> bytes:
        """Return the gradients of a message that waits."""
        with self._translated("read"):
            row = self._db.execute(
                f"SELECT data FROM letter WHERE {_WHERE}",  # noqa: S608 - a constant
                _row(name),
            ).fetchone()
        if row is None or row[0] is None:
            raise ProxyError(f"{self._path}: gradients {name.payload.short} are not there any more")
        return bytes(row[0])

    def state(self) -> bytes | None:
        """Return the method's state; None before any."""
        with self._translated("read"):
            row = self._db.execute("SELECT state FROM scored").fetchone()
        return None if row is None else bytes(row[0])

    def _write(self, change: records.Change) -> None:
        match change:
            case records.GradientsKept(held, data):
                self._db.execute(
                    "INSERT INTO letter VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                    [
                        *_row(held.name),
                        held.device,
                        held.method,
                        held.lineage,
                        held.size,
                        data,
                    ],
                )
            case records.GradientsAnswered(name, answer):
                self._db.execute(
                    f"UPDATE letter SET answer = ? WHERE {_WHERE}",  # noqa: S608 - a constant
                    [answer.model_dump_json(), *_row(name)],
                )
                if not isinstance(answer, Accepted):
                    self._forget(name)
            case records.OrderScored(scored, state, used):
                self._db.execute(
                    "INSERT OR REPLACE INTO scored VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        scored.answer.model_dump_json(),
                        scored.key.stage,
                        scored.key.part,
                        scored.lineage,
                        scored.weights,
                        scored.task,
                        state,
                    ],
                )
                for name in used:
                    self._forget(name)

    def _forget(self, name: records.Name) -> None:
        self._db.execute(
            f"UPDATE letter SET device = NULL, data = NULL, size = 0 WHERE {_WHERE}",  # noqa: S608
            _row(name),
        )

    def _scored(self) -> records.ScoredOrder | None:
        row = self._db.execute(
            "SELECT answer, stage, part, lineage, weights, task FROM scored"
        ).fetchone()
        if row is None:
            return None
        answer, stage, part, lineage, weights, task = row
        return records.ScoredOrder(
            Scored.model_validate_json(answer),
            PartKey(stage=stage, part=part),
            Digest(lineage),
            Digest(weights),
            task,
        )

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ProxyError(
                f"{self._path}: cannot be {verb}: {error}; look at the disk's space and health"
            ) from error


def _deletes(change: records.Change) -> bool:
    match change:
        case records.GradientsAnswered(answer=answer):
            return not isinstance(answer, Accepted)
        case records.OrderScored():
            return True
        case _:
            return False


def _row(name: records.Name) -> list[int | str]:
    return [name.key.stage, name.key.part, name.payload]


def _held(row: Sequence[object]) -> records.HeldGradients:
    stage, part, payload, device, method, lineage, size, answer = row
    assert isinstance(size, int)
    return records.HeldGradients(
        records.Name(PartKey.model_validate({"stage": stage, "part": part}), Digest(payload)),
        None if device is None else DeviceId(device),
        str(method),
        Digest(lineage),
        size,
        None if answer is None else _FINAL.validate_json(str(answer)),
    )
