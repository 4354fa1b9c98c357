"""What masks show: pixels by value, counted once per mask and kept on the disk by its digest.

The file is a cache: deleting it costs one scan that reads every mask again. It has no names, so
that classes.toml may change, and forgets the masks that a scan no longer finds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlite_utils import Database

from device_agent.errors import SourceError
from device_agent.sources.masks import decode_mask, pixels_of
from learning.errors import ImageError
from schemas.values import Digest


@dataclass(frozen=True)
class ShownClasses:
    """What a mask shows: how many pixels have each value; or why it cannot be read."""

    pixels: Mapping[int, int] = field(default_factory=dict)
    fault: str = ""


def look_at(mask: bytes) -> ShownClasses:
    """Return what the bytes of a mask show."""
    try:
        return ShownClasses(pixels_of(decode_mask(mask)))
    except ImageError as error:
        return ShownClasses(fault=str(error))


class ShownCache:
    """Digest of a mask to what it shows; for one thread."""

    def __init__(self, path: Path) -> None:
        """Open or make the cache at `path`; raise `SourceError`."""
        self._path = path
        try:
            self._db = Database(str(path))
            self._db.execute("PRAGMA journal_mode=WAL").fetchall()
            # A cache may lose its last commits, so it need not wait for the disk.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS shown (digest TEXT PRIMARY KEY, pixels TEXT NOT NULL,"
                " fault TEXT NOT NULL) WITHOUT ROWID"
            )
            rows = self._db.execute("SELECT digest, pixels, fault FROM shown").fetchall()
            self._shown = {Digest(digest): _read(pixels, fault) for digest, pixels, fault in rows}
        except (sqlite3.Error, ValueError) as error:
            raise self._failure(error) from error

    def __len__(self) -> int:
        return len(self._shown)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, digest: Digest) -> ShownClasses | None:
        """Return what the mask of that digest shows, where it was looked at."""
        return self._shown.get(digest)

    def put(self, digest: Digest, shown: ShownClasses) -> None:
        """Keep at once what a mask shows: a first scan of many may be cut short."""
        self._shown[digest] = shown
        self._write("INSERT OR REPLACE INTO shown VALUES (?, ?, ?)", [(digest, *_written(shown))])

    def keep(self, current: Collection[Digest]) -> None:
        """Forget all other masks."""
        gone = self._shown.keys() - set(current)
        for digest in gone:
            del self._shown[digest]
        if gone:
            self._write("DELETE FROM shown WHERE digest = ?", [(digest,) for digest in gone])

    def _write(self, statement: str, rows: list[tuple[str, ...]]) -> None:
        try:
            with self._db.conn as connection:
                connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> SourceError:
        return SourceError(f"{self._path}: {error}; delete this file, it is only a cache")


def _written(shown: ShownClasses) -> tuple[str, str]:
    return json.dumps(list(shown.pixels.items())), shown.fault


def _read(pixels: str, fault: str) -> ShownClasses:
    return ShownClasses({int(value): int(count) for value, count in json.loads(pixels)}, fault)
