"""Digests of files that were hashed before, so that a scan reads only what is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fleetledger.device_agent.samples.sources.cache_file import CacheFile
from fleetledger.runtime.table_layout import atomic
from fleetledger.schemas.values import Digest


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
