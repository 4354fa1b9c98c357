"""A SQLite file of the agent, and the steps that bring its tables up to date.

What an agent needs of a database library is this little. sqlite-utils, which the coordinator uses,
would bring a command line and its helpers into the memory of a program that runs for months. The
record of steps is the one that sqlite-utils keeps, so either reads the other's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

_TABLE = "_sqlite_migrations"


class Database:
    """An open file, for one thread; every statement is committed, unless a block holds several."""

    def __init__(self, path: str) -> None:
        """Open a file, made where it is not; raise `sqlite3.Error`."""
        self.conn = sqlite3.connect(path, isolation_level=None)
        self.execute("PRAGMA recursive_triggers=on")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self.conn.execute(sql, values)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        """Run several statements without values."""
        return self.conn.executescript(sql)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Have all statements of a block take effect, or none: one transaction, not in another."""
        self.execute("BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.conn.in_transaction:  # some errors have ended it already
                self.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        self.conn.close()


Step = Callable[[Database], None]


class Migrations:
    """Named steps in their order; a file knows by name which it has behind it."""

    def __init__(self, name: str) -> None:
        """`name` tells the steps of one kind of file from those of others."""
        self._name = name
        self._steps: dict[str, Step] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All steps, in their order."""
        return tuple(self._steps)

    def __call__(self, step: Step) -> Step:
        """Add a function as the next step, under its name."""
        name = step.__name__
        assert name not in self._steps, f"{name}: two steps of one name"
        self._steps[name] = step
        return step

    def applied(self, db: Database) -> list[str]:
        """Return the steps that a file has behind it; write nothing."""
        found = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [_TABLE]).fetchone()
        if found is None:
            return []
        rows = db.execute(
            f"SELECT name FROM {_TABLE} WHERE migration_set = ? ORDER BY rowid",  # noqa: S608
            [self._name],
        )
        return [str(name) for (name,) in rows]

    def apply(self, db: Database, stop_before: str | None = None) -> None:
        """Do what was not done yet, each step with its record in one transaction.

        It ends before the step `stop_before`, so that a file of an earlier agent can be made.
        """
        done = set(self.applied(db))
        if not done:
            db.executescript(
                f"CREATE TABLE IF NOT EXISTS {_TABLE} (id INTEGER PRIMARY KEY,"
                " migration_set TEXT, name TEXT, applied_at TEXT);"
                f"CREATE UNIQUE INDEX IF NOT EXISTS idx_{_TABLE}_migration_set_name"
                f" ON {_TABLE} (migration_set, name);"
            )
        for name, step in self._steps.items():
            if name == stop_before:
                return
            if name not in done:
                with db.atomic():
                    step(db)
                    db.execute(
                        f"INSERT INTO {_TABLE} (migration_set, name, applied_at)"  # noqa: S608
                        " VALUES (?, ?, ?)",
                        [self._name, name, str(datetime.now(timezone.utc))],
                    )
