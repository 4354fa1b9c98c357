"""Digests of files that were hashed before, so that a scan reads only what is new."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fleetledger.device_agent.errors import SourceError
from fleetledger.runtime.table_layout import atomic
from fleetledger.schemas.values import Digest


class CacheFile:
    """One table of what can be found out again; for one thread.

    Deleting the file costs a scan that reads everything.
    """

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


class HashedFile(NamedTuple):
    """A file as it was when it was hashed."""

    size: int
    mtime_ns: int
    digest: Digest


class DigestCache(CacheFile):
    """Path (relative to the data folder) to what was seen there."""

    def __init__(self, path: Path) -> None:
        """Open or make the cache at `path`; raise `SourceError`."""
        super().__init__(
            path,
            "seen (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,"
            " digest TEXT NOT NULL)",
        )
        with self.failures():
            rows = self.db.execute("SELECT path, size, mtime_ns, digest FROM seen")
            self._seen = {
                name: HashedFile(size, mtime_ns, Digest(digest))
                for name, size, mtime_ns, digest in rows
            }

    def get(self, path: str, size: int, mtime_ns: int) -> Digest | None:
        """Return the digest of a file that has not changed since it was hashed."""
        seen = self._seen.get(path)
        if seen is None or (seen.size, seen.mtime_ns) != (size, mtime_ns):
            return None
        return seen.digest

    def forget(self, paths: Iterable[str]) -> None:
        """Have files hashed again though they seem to be what they were."""
        for path in paths:
            self._seen.pop(path, None)

    def update(self, current: Mapping[str, HashedFile]) -> None:
        """Make the cache what the last scan saw; only differences are written."""
        gone = self._seen.keys() - current.keys()
        new = [(path, *seen) for path, seen in current.items() if self._seen.get(path) != seen]
        self._seen = dict(current)
        if not gone and not new:
            return
        with self.failures(), atomic(self.db):
            self.db.executemany("DELETE FROM seen WHERE path = ?", [(path,) for path in gone])
            self.db.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", new)
