"""The SQLite file of the feature cache: a row of floats per image, backbone and preprocessing.

source   a backbone and a preprocessing: the digest of both
entry    an image of a source: when it was used last, and the digest of its row
floats   the row itself, apart, so that noting a use does not write it again

Every row has a digest over its source, its image and its bytes. One that differs counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fleetledger.device_agent.models.inference.installed_model import Floats
from fleetledger.runtime.table_layout import atomic
from fleetledger.schemas.values import Digest

LAYOUT = 1
"""Written into the file; another one is made anew."""
_LEAST_PAGES = 16
"""More than the tables take without rows."""
_FREED_AT_ONCE = 32
"""Rows that go at a time when there is no room."""
_FLOAT = np.dtype("<f4")

_TABLES = """
DROP TABLE IF EXISTS source;
DROP TABLE IF EXISTS entry;
DROP TABLE IF EXISTS floats;
CREATE TABLE source (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    image TEXT NOT NULL,
    used INTEGER NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (source, image)
) STRICT;
CREATE INDEX entry_used ON entry (used, id);
CREATE TABLE floats (id INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT;
"""


class FeatureTable:
    """Rows by image; for one thread. Everything raises `sqlite3.Error` or `OSError`."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Open the file at `path`, or make it, readable by the agent's user alone."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._open()
            self._limit_pages = max(_LEAST_PAGES, limit_bytes // self._pragma("page_size"))
            self._now = 1 + (self._value("SELECT max(used) FROM entry") or 0)
            self.shrink()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        # Takes effect in a new file only.
        self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL").fetchall()
        # A cache may lose its last commits, so it need not wait for the disk.
        self._db.execute("PRAGMA synchronous = NORMAL")
        # What is damaged need not be text; it is compared, and differs.
        self._db.text_factory = bytes
        if self._pragma("user_version") != LAYOUT:
            self._db.executescript(f"{_TABLES}PRAGMA user_version = {LAYOUT};")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __len__(self) -> int:
        return int(self._value("SELECT count(*) FROM entry") or 0)

    def read(self, source: Digest, images: Sequence[Digest]) -> dict[Digest, Floats]:
        """Return the rows that are whole, and note that they were used; forget the others."""
        rows: dict[Digest, Floats] = {}
        whole: list[int] = []
        torn: list[int] = []
        for number, at, digest, row in self._found(source, images):
            if row is not None and row_digest(source, images[at], row) == digest:
                rows[images[at]] = np.frombuffer(row, _FLOAT)
                whole.append(number)
            else:
                torn.append(number)
        with atomic(self._db):
            self._remove(torn)
            self._db.executemany(
                "UPDATE entry SET used = ? WHERE id = ?", [(self._now, item) for item in whole]
            )
        self._now += 1
        return rows

    def write(self, source: Digest, rows: Mapping[Digest, Floats]) -> None:
        """Add rows; those that were used longest ago make room for them."""
        with atomic(self._db):
            self._db.execute("INSERT OR IGNORE INTO source (digest) VALUES (?)", [source])
            key = self._value("SELECT id FROM source WHERE digest = ?", [source])
            for image, values in rows.items():
                row = np.ascontiguousarray(values, _FLOAT).tobytes()
                digest = row_digest(source, image, row)
                (number,) = self._db.execute(
                    "INSERT INTO entry (source, image, used, digest) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (source, image) DO UPDATE"
                    " SET used = excluded.used, digest = excluded.digest RETURNING id",
                    [key, image, self._now, digest],
                ).fetchall()[0]
                self._db.execute("INSERT OR REPLACE INTO floats VALUES (?, ?)", [number, row])
            self._make_room()

    def shrink(self) -> None:
        """Keep to the limit, which may be another than last time, and give back what is free."""
        with atomic(self._db):
            self._make_room()
        # Not `execute`, which would free the first page and stop.
        self._db.executescript("PRAGMA incremental_vacuum")

    def _make_room(self) -> None:
        while self._pages() > self._limit_pages:
            oldest = self._db.execute(
                "SELECT id FROM entry ORDER BY used, id LIMIT ?", [_FREED_AT_ONCE]
            ).fetchall()
            if not oldest:
                raise sqlite3.DatabaseError("it holds pages that nothing uses")
            self._remove(number for (number,) in oldest)

    def _pages(self) -> int:
        return self._pragma("page_count") - self._pragma("freelist_count")

    def _found(
        self, source: Digest, images: Sequence[Digest]
    ) -> list[tuple[int, int, bytes, bytes | None]]:
        """Return number, place in `images`, digest and row of each entry.

        CROSS JOIN keeps the order of the tables: SQLite cannot know how many images are wanted, and
        would look through all of them for every entry.
        """
        return self._db.execute(
            "SELECT entry.id, wanted.key, entry.digest, floats.row FROM json_each(?) AS wanted"
            " CROSS JOIN source ON source.digest = ?"
            " CROSS JOIN entry ON entry.source = source.id AND entry.image = wanted.value"
            " LEFT JOIN floats ON floats.id = entry.id",
            [json.dumps(images), source],
        ).fetchall()

    def _remove(self, numbers: Iterable[int]) -> None:
        rows = [(number,) for number in numbers]
        self._db.executemany("DELETE FROM entry WHERE id = ?", rows)
        self._db.executemany("DELETE FROM floats WHERE id = ?", rows)

    def _value(self, query: str, values: Sequence[str] = ()) -> int | None:
        (value,) = self._db.execute(query, list(values)).fetchone() or (None,)
        if value is not None and not isinstance(value, int):
            raise sqlite3.DatabaseError(f"{query}: {value!r} is no number")
        return value

    def _pragma(self, name: str) -> int:
        return int(self._value(f"PRAGMA {name}") or 0)


def row_digest(source: Digest, image: Digest, row: bytes) -> bytes:
    """Return what a row is recognised by: whose it is, and every bit of it."""
    return hashlib.sha256(f"{source} {image} ".encode("ascii") + row).digest()
