"""The agent's database: one transaction per set of changes, on the disk when `commit` returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from device_agent.core.changes import Durable
from device_agent.core.records import LetterKey
from device_agent.core.state import Records
from device_agent.errors import StoreError
from device_agent.store.loading import load_records, read_fact
from device_agent.store.schema import MIGRATIONS
from device_agent.store.writing import write_change, write_fact
from schemas.errors import SchemaError
from schemas.values import BootId


@dataclass(frozen=True)
class DeadLetter:
    """A letter that the coordinator refused for good."""

    about: str
    stage: int
    part: int
    revision: int
    reason: str
    time_ns: int


def make_blank_store(path: Path) -> Path:
    """Make a database with all tables and no installation, of which copies can be opened."""
    if not path.exists():
        db = Database(str(path))
        MIGRATIONS.apply(db)
        db.close()
    return path


class Store:
    """Open for one thread; WAL with `synchronous=FULL`, so a power cut loses nothing committed."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        name: Callable[[], BootId] = BootId.fresh,
        known: BootId | None = None,
    ) -> None:
        """Open the database at `path`, making it where there is none; raise `StoreError`.

        What is not `durable` outlives the program, but not a power cut. `name` gives a new
        installation its name. `known` is the installation of a database that this program has had
        open before; it is not looked over again.
        """
        self._path = path
        self._name = name
        with self._translated("opened"):
            self._db = Database(str(path))
            self._db.execute(f"PRAGMA journal_mode={'WAL' if durable else 'PERSIST'}").fetchall()
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
            # What is deleted is overwritten: letters may tell of images.
            self._db.execute(f"PRAGMA secure_delete={'ON' if durable else 'OFF'}").fetchall()
            if known is None:
                self._refuse_newer()
                MIGRATIONS.apply(self._db)
        self.installation = known if known is not None else self._installation()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def load(self) -> Records:
        """Rebuild the records; raise `StoreError` where the database cannot be read."""
        with self._translated("read"):
            try:
                return load_records(self._db)
            except SchemaError as error:
                raise StoreError(
                    f"{self._path}: holds what this program cannot read ({error}); use the program "
                    "that wrote it, or move the file away to begin as a new installation"
                ) from error

    def commit(self, changes: Sequence[Durable]) -> None:
        """Write all changes in one transaction; raise `StoreError`, and write nothing, if not."""
        with self._translated("written"), self._db.atomic():
            for change in changes:
                write_change(self._db, change)

    def payload(self, letter: LetterKey) -> bytes:
        """Return the payload that lies with a letter, empty if it is offered or there is none."""
        with self._translated("read"):
            row = self._db.execute(
                "SELECT payload FROM outbox WHERE about = ? AND stage = ? AND part = ?",
                [letter.about, letter.key.stage, letter.key.part],
            ).fetchone()
        return bytes(row[0]) if row is not None and row[0] is not None else b""

    def dead_letters(self, newest: int = 100) -> list[DeadLetter]:
        """Return the newest refused letters, newest first."""
        with self._translated("read"):
            rows = self._db.execute(
                "SELECT about, stage, part, revision, reason, time_ns FROM dead_letter"
                " ORDER BY id DESC LIMIT ?",
                [newest],
            ).fetchall()
        return [DeadLetter(*row) for row in rows]

    def _installation(self) -> BootId:
        with self._translated("written"), self._db.atomic():
            known = read_fact(self._db, "installation")
            if known is not None:
                return BootId(known)
            fresh = self._name()
            write_fact(self._db, "installation", fresh)
            return fresh

    def _refuse_newer(self) -> None:
        known = {step.name for step in MIGRATIONS.pending(Database(memory=True))}
        newer = {step.name for step in MIGRATIONS.applied(self._db)} - known
        if newer:
            raise StoreError(
                f"{self._path}: written by a newer agent ({min(newer)}); update this one"
            )

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"{self._path}: cannot be {verb}: {error}; look at the disk's space and health"
            ) from error
