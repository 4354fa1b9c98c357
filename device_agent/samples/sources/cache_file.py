"""An SQLite file of what can be found out again: deleting it costs a scan that reads everything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.device_agent.errors import SourceError


class CacheFile:
    """One table; for one thread."""

    def __init__(self, path: Path, table: str) -> None:
        """Open or make the file; `table` names the table and its columns. Raises `SourceError`."""
        self._path = path
        with self.failures():
            self.db = sqlite3.connect(path, isolation_level=None)
            self.db.execute("PRAGMA journal_mode=WAL").fetchall()
            # A cache may lose its last commits, so it need not wait for the disk.
            self.db.execute("PRAGMA synchronous=NORMAL")
            self.db.execute(f"CREATE TABLE IF NOT EXISTS {table} WITHOUT ROWID")

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what a file that cannot be used raises into `SourceError`."""
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            message = f"{self._path}: {error}; delete this file, it is only a cache"
            raise SourceError(message) from error
