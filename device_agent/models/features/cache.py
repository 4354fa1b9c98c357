"""The feature cache: it saves time, and whatever happens to it, nothing but time is lost.

A file that SQLite calls broken is deleted and begun anew. Where the disk refuses, features are
computed as if there were no cache, and `trouble` says so.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from fleetledger.device_agent.models.features.table import FeatureTable
from fleetledger.device_agent.models.inference.installed_model import Floats
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import Digest

MEGABYTE = 1_000_000
_SIDES = ("", "-wal", "-shm")
"""SQLite's own files beside the database."""
_Result = TypeVar("_Result")

log = logging.getLogger("device_agent.features")


class FeatureCache:
    """Rows of features by image; for one thread."""

    def __init__(self, path: Path, megabytes: int) -> None:
        self._path = path
        self._limit = megabytes * MEGABYTE
        self._open_table: FeatureTable | None = None
        self.trouble = ""
        """Why the disk refused the cache the last time it was asked; empty where it did not."""

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        if self._open_table is not None:
            self._open_table.close()
        self._open_table = None

    def read(self, source: Digest, images: Sequence[Digest]) -> dict[Digest, Floats]:
        """Return the rows that are there and whole, by image."""
        return self._tried(lambda table: table.read(source, images)) or {}

    def write(self, source: Digest, rows: Mapping[Digest, Floats]) -> None:
        """Keep rows, if the disk takes them."""
        self._tried(lambda table: table.write(source, rows))

    def _tried(self, work: Callable[[FeatureTable], _Result]) -> _Result | None:
        """Return what `work` returns, or None where the disk refuses; a broken file is replaced."""
        self.trouble = ""
        for first in (True, False):
            try:
                return work(self._table())
            except sqlite3.ProgrammingError:
                raise  # a fault of this program, which no other file would mend
            except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
                self.close()
                if first and self._begin_anew(error):
                    continue
                self._note(error)
                break
        return None

    def _begin_anew(self, error: Exception) -> bool:
        """Delete the file if it is at fault; return whether that may help."""
        if not _is_broken(self._path, error):
            return False
        log.warning("%s: %s; it is made anew", self._path, error)
        try:
            delete_cache(self._path)
        except OSError:
            return False
        return True

    def _table(self) -> FeatureTable:
        if self._open_table is None:
            self._open_table = FeatureTable(self._path, self._limit)
        return self._open_table

    def _note(self, error: Exception) -> None:
        self.trouble = (
            f"{self._path}: {error}; training goes on without the cache and computes features "
            "anew in every round: free some space, or mend the disk"
        )
        log.warning("%s", self.trouble)


def source_digest(backbone: Digest, preprocessing: AnyPreprocessing) -> Digest:
    """Return the name of what makes features of images: a frozen model and how it is fed."""
    fed = Digest.of(canonical_json(preprocessing.model_dump(mode="json")))
    return Digest.of(f"{backbone} {fed}".encode("ascii"))


def cache_bytes(path: Path) -> int:
    """Return the size of the cache on the disk; 0 where there is none."""
    return sum(file.stat().st_size for file in _files(path))


def delete_cache(path: Path) -> None:
    """Delete the cache, which nobody has open; raise `OSError`."""
    for file in _files(path):
        file.unlink()


def _files(path: Path) -> list[Path]:
    files = [path.with_name(path.name + side) for side in _SIDES]
    return [file for file in files if file.exists()]


def _is_broken(path: Path, error: Exception) -> bool:
    """Whether the file is at fault; a full or failing disk shows as `OperationalError`.

    That is also what some damage shows as, and what a name that is no text is read from.
    """
    if not isinstance(error, OSError | sqlite3.OperationalError):
        return True
    return path.exists() and not _is_sound(path)


def _is_sound(path: Path) -> bool:
    """Whether SQLite finds no fault in a file, which it reads and does not touch."""
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except (sqlite3.Error, UnicodeDecodeError):
        return False
