"""Layout and transactions of a SQLite file: its tables are made once, another layout is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


def lay_out(db: sqlite3.Connection, tables: str, layout: int) -> int:
    """Make the tables in a file that has none; return the number of its layout, 0 for unknown.

    `tables` are statements of SQL. The caller refuses a number other than `layout`.
    """
    if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
        db.executescript(f"BEGIN IMMEDIATE; {tables}; PRAGMA user_version = {layout}; COMMIT;")
    return layout_of(db)


def layout_of(db: sqlite3.Connection) -> int:
    """Return the number of a file's layout; 0 where no program of this kind made it."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def atomic(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all of a block, or nothing of it where it raises."""
    db.execute("BEGIN")
    with db:
        yield
