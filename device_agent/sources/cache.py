"""Digests of files that were hashed before, so that a scan reads only what is new.

The file is a cache: deleting it costs one scan that reads everything again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sqlite_utils import Database

from device_agent.errors import SourceError
from schemas.values import Digest


class HashedFile(NamedTuple):
    """A file as it was when it was hashed."""

    size: int
    mtime_ns: int
    digest: Digest


class DigestCache:
    """Path (relative to the data folder) to what was seen there; for one thread."""

    def __init__(self, path: Path) -> None:
        """Open or make the cache at `path`; raise `SourceError`."""
        self._path = path
        try:
            self._db = Database(str(path))
            self._db.execute("PRAGMA journal_mode=WAL").fetchall()
            # A cache may lose its last commits, so it need not wait for the disk.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS seen (path TEXT PRIMARY KEY, size INTEGER NOT NULL,"
                " mtime_ns INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID"
            )
            rows = self._db.execute("SELECT path, size, mtime_ns, digest FROM seen")
            self._seen = {
                name: HashedFile(size, mtime_ns, Digest(digest))
                for name, size, mtime_ns, digest in rows
            }
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, path: str, size: int, mtime_ns: int) -> Digest | None:
        """Return the digest of a file that has not changed since it was hashed."""
        seen = self._seen.get(path)
        if seen is None or (seen.size, seen.mtime_ns) != (size, mtime_ns):
            return None
        return seen.digest

    def update(self, current: Mapping[str, HashedFile]) -> None:
        """Make the cache what the last scan saw; only differences are written."""
        gone = self._seen.keys() - current.keys()
        new = [(path, *seen) for path, seen in current.items() if self._seen.get(path) != seen]
        self._seen = dict(current)
        if not gone and not new:
            return
        try:
            with self._db.conn as connection:
                connection.executemany(
                    "DELETE FROM seen WHERE path = ?", [(path,) for path in gone]
                )
                connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", new)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> SourceError:
        return SourceError(f"{self._path}: {error}; delete this file, it is only a cache")
