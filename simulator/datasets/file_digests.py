"""Digests of picture files, each decoded once and then remembered on the disk.

What is digested are the pixels: devices get every picture as a file of their own, so two files with
the same pixels are one picture. A file is decoded again when its size or time of change differs.
The memory is a cache: deleting it costs decoding all files once more.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Lock

from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.datasets.pictures import read_picture
from fleetledger.simulator.datasets.samples import picture_digest
from fleetledger.simulator.errors import DatasetError

_TABLE = (
    "CREATE TABLE IF NOT EXISTS seen (path TEXT PRIMARY KEY, size INTEGER NOT NULL,"
    " mtime_ns INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID"
)


class FileDigests:
    """Digests of the files below one folder, by path relative to it, once they are learned."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._digests: dict[str, Digest] = {}
        self._lock = Lock()

    def __contains__(self, path: str) -> bool:
        return path in self._digests

    def __getitem__(self, path: str) -> Digest:
        return self._digests[path]

    def learn(self, paths: Sequence[str]) -> None:
        """Find out the digests of some files, on all cores.

        Raises `DatasetError` for a file that is not a picture, and where they cannot be remembered.
        """
        with self._lock:
            new = [path for path in paths if path not in self._digests]
            try:
                self._learn(new)
            except sqlite3.Error as error:
                raise DatasetError(
                    f"{self._file}: {error}; delete this file, it is only a cache"
                ) from error

    @property
    def _file(self) -> Path:
        name = Digest.of(os.fsencode(self._root.resolve()))
        return cache_folder("digests") / f"{name}.db"

    def _learn(self, paths: Sequence[str]) -> None:
        try:
            looks = {path: _look(self._root / path) for path in paths}
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatasetError(
                f"{error.filename}: cannot be used: {error.strerror}; mend its permissions"
            ) from error
        with closing(sqlite3.connect(self._file)) as database:
            database.execute(_TABLE)
            self._digests.update(_remembered(database, looks))
            missing = [path for path in paths if path not in self._digests]
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                found = dict(zip(missing, pool.map(self._digest, missing), strict=True))
            rows = [(path, *looks[path], digest) for path, digest in found.items()]
            with database:
                database.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", rows)
            self._digests.update(found)

    def _digest(self, path: str) -> Digest:
        return picture_digest(read_picture(self._root / path))


def _look(path: Path) -> tuple[int, int]:
    """Return size and time of change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _remembered(
    database: sqlite3.Connection, looks: dict[str, tuple[int, int]]
) -> dict[str, Digest]:
    """Return the digests of files that look as they did."""
    found = {}
    for path, look in looks.items():
        row = database.execute(
            "SELECT size, mtime_ns, digest FROM seen WHERE path = ?", (path,)
        ).fetchone()
        if row is not None and (row[0], row[1]) == look:
            found[path] = Digest(row[2])
    return found
