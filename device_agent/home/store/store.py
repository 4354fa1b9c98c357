"""The agent's database: one transaction per set of changes, on the disk when `commit` returns.

Tables of `agent.db`.

installation  one row: the name of this installation
run           the newest runs of this installation, in their order
record        what the agent must not lose, as rows that follow from the types (`store.rows`)
attached      small payloads of messages that have no receipt
dead_letter   messages that were refused, with the reason
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.core.changes import Durable, drafted
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.errors import HeldError, StoreError
from fleetledger.device_agent.home.store.rows import load_records, read_attached, write_draft
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.problems import HELD
from fleetledger.runtime.table_layout import atomic, lay_out
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.presence import MAX_FORMER_RUNS
from fleetledger.schemas.receipts import RETRACTED
from fleetledger.schemas.values import BootId

LAYOUT = 1
_TABLES = """
CREATE TABLE installation (name TEXT NOT NULL) STRICT;
CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL) STRICT;
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    field TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (field, key)
) STRICT;
CREATE TABLE attached (letter TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT;
CREATE TABLE dead_letter (
    id INTEGER PRIMARY KEY,
    about TEXT NOT NULL,
    stage INTEGER NOT NULL,
    part INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    reason TEXT NOT NULL,
    time_ns INTEGER NOT NULL
) STRICT;
"""
HELD_SECONDS = 3600.0
"""For so long another program may hold the database before the agent ends."""
_BUSY_MILLISECONDS = 2000


@dataclass(frozen=True)
class DeadLetter:
    """A message that the coordinator refused for good."""

    about: str
    stage: int
    part: int
    revision: int
    reason: str
    time_ns: int


class AgentStore:
    """Open for one thread; WAL with `synchronous=FULL`, so a power cut loses nothing committed."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        name: Callable[[], BootId] = BootId.fresh,
    ) -> None:
        """Open the database at `path`, making it where there is none; raise `StoreError`.

        What is not `durable` outlives the program, but not a power cut. `name` gives a new
        installation its name.
        """
        self._path = path
        self._name = name
        self.on_held: Callable[[str], object] = lambda _why: None
        """Called about once a second, with the reason, while another program holds the database."""
        with self._translated("opened"):
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}").fetchall()
            self._db.execute(f"PRAGMA journal_mode={'WAL' if durable else 'PERSIST'}").fetchall()
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
            # What is deleted is overwritten: messages may tell of images.
            self._db.execute(f"PRAGMA secure_delete={'ON' if durable else 'OFF'}").fetchall()
            self._lay_out()
        self.installation = self._installation()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def load(self) -> AgentRecords:
        """Rebuild the records; raise `StoreError` where the database cannot be read."""
        with self._translated("read"):
            try:
                return load_records(self._db)
            except SchemaError as error:
                raise StoreError(
                    f"{self._path}: holds what this program cannot read ({error}); use the program "
                    "that wrote it, or move the file away to begin as a new installation"
                ) from error

    def commit(self, records: AgentRecords, changes: Sequence[Durable]) -> None:
        """Write all changes in one transaction, then bring them into `records`.

        Waits while another program holds the database. Raises `StoreError`, and changes neither,
        if they cannot be written.
        """
        draft = drafted(records, changes)
        began = time.monotonic()
        while True:
            try:
                with self._translated("written"), atomic(self._db):
                    write_draft(self._db, draft, records)
                break
            except HeldError as error:
                if time.monotonic() - began > HELD_SECONDS:
                    raise
                self.on_held(str(error))
        draft.merge(records)

    def begin_run(self, boot: BootId) -> tuple[BootId, ...]:
        """Note that this run has begun; return the runs before it, newest first."""
        with self._translated("written"), atomic(self._db):
            query = "SELECT boot FROM run ORDER BY id DESC LIMIT ?"
            formers = tuple(BootId(name) for (name,) in self._db.execute(query, [MAX_FORMER_RUNS]))
            run = self._db.execute("INSERT INTO run (boot) VALUES (?)", [boot]).lastrowid
            self._db.execute("DELETE FROM run WHERE id <= ?", [(run or 0) - MAX_FORMER_RUNS])
        return formers

    def payload(self, message: OutboxKey) -> bytes:
        """Return the payload that lies with a message, empty if it is offered or there is none."""
        with self._translated("read"):
            return read_attached(self._db, message)

    def dead_letters(self, newest: int = 100) -> list[DeadLetter]:
        """Return the newest refused messages, newest first."""
        with self._translated("read"):
            rows = self._db.execute(
                "SELECT about, stage, part, revision, reason, time_ns FROM dead_letter"
                " ORDER BY id DESC LIMIT ?",
                [newest],
            ).fetchall()
        return [DeadLetter(*row) for row in rows]

    def retracted_parts(self) -> frozenset[PartKey]:
        """Return the parts that the operator took out of the sum, for good."""
        with self._translated("read"):
            rows = self._db.execute(
                "SELECT stage, part FROM dead_letter"
                " WHERE about = 'contribution' AND reason LIKE ?",
                [f"{RETRACTED}%"],
            ).fetchall()
        return frozenset(PartKey(stage=stage, part=part) for stage, part in rows)

    def _installation(self) -> BootId:
        with self._translated("written"), atomic(self._db):
            known = self._db.execute("SELECT name FROM installation").fetchone()
            if known is not None:
                return BootId(known[0])
            fresh = self._name()
            self._db.execute("INSERT INTO installation (name) VALUES (?)", [fresh])
            return fresh

    def _lay_out(self) -> None:
        found = lay_out(self._db, _TABLES, LAYOUT)
        if found != LAYOUT:
            raise StoreError(
                f"{self._path}: layout {found} of another release, this one has {LAYOUT}; run the "
                "release that wrote it, or move the file away to begin as a new installation"
            )

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise HeldError(f"{self._path}: {HELD}") from error
            raise self._unusable(verb, error) from error
        except sqlite3.Error as error:
            raise self._unusable(verb, error) from error

    def _unusable(self, verb: str, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"{self._path}: cannot be {verb}: {error}; look at the disk's space and health"
        )
