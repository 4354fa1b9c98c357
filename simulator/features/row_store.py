"""Rows of float32 on the disk, each under the digest of the picture that it was computed from.

<folder>/about.json     what the rows are; the folder is named after the digest of part of it
<folder>/digests.bin    32 bytes for each row
<folder>/rows.f32       the rows, little-endian
<folder>/timing.json    how many rows were computed here, and in how many seconds
<folder>/lock           held by the process that appends

Rows are only ever appended: first the row, then, when that is on the disk, its digest. So a process
may be killed at any moment, and the next goes on where it stopped. Deleting a folder costs the
time of computing its rows again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.features.interface import Floats, Indices

_DIGEST_BYTES = 32
_FLOAT = np.dtype("<f4")
Origin = Mapping[str, object]
"""What decides the rows: model, preprocessing, runtime; JSON."""


@dataclass(frozen=True)
class About:
    """What the rows of one folder are."""

    origin: Origin
    width: int

    def to_json(self) -> bytes:
        """Return the content of `about.json`."""
        return canonical_json({"origin": dict(self.origin), "width": self.width})


class RowStore:
    """The rows of one folder; any number of processes may read and append."""

    def __init__(self, folder: Path, about: About) -> None:
        self._folder = folder
        self._about = about
        self._place: dict[bytes, int] = {}
        self._mapped: Floats | None = None
        self.refresh()

    @classmethod
    def open(cls, cache: Path, origin: Origin) -> RowStore | None:
        """Open the rows of `origin` below `cache`; return None if there are none yet.

        Raises `BackboneError` for a folder that is damaged.
        """
        folder = _folder(cache, origin)
        path = folder / "about.json"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            width = json.loads(data)["width"]
            if data == About(origin, width).to_json():
                return cls(folder, About(origin, width))
        except (ValueError, TypeError, KeyError):
            pass
        raise _damaged(folder, "about.json is not what was written")

    @classmethod
    def create(cls, cache: Path, origin: Origin, width: int) -> RowStore:
        """Make an empty folder for rows of `width` numbers, or open the one that is there."""
        about, folder = About(origin, width), _folder(cache, origin)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _replace(folder / "about.json", about.to_json())
        except OSError as error:
            raise _unwritable(folder, error) from error
        return cls(folder, about)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self._about.width

    @property
    def seconds_per_row(self) -> float:
        """Seconds of one core that a row took when it was computed; 0 before the first."""
        rows, seconds = self._timing()
        return seconds / rows if rows else 0.0

    @contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Keep other processes from appending, and see what they have appended before.

        Calls `on_wait` before waiting for one that appends.
        """
        with (self._folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            self.refresh()
            yield

    def refresh(self) -> None:
        """See what has been appended since."""
        path = self._folder / "digests.bin"
        data = path.read_bytes() if path.exists() else b""
        count = len(data) // _DIGEST_BYTES
        if self._size("rows.f32") < count * self._row_bytes:
            raise _damaged(self._folder, "rows.f32 is shorter than digests.bin says")
        pieces = (data[i * _DIGEST_BYTES : (i + 1) * _DIGEST_BYTES] for i in range(count))
        self._place = {digest: place for place, digest in enumerate(pieces)}
        self._count = count

    def find(self, digests: Sequence[Digest]) -> Indices:
        """Return the place of each digest's row, -1 where there is none, int64 (n,)."""
        places = (self._place.get(bytes.fromhex(digest), -1) for digest in digests)
        return np.fromiter(places, np.int64, len(digests))

    def rows(self, places: Indices) -> Floats:
        """Return rows (n, width) of places that `find` gave."""
        if not len(places):
            return np.empty((0, self.width), np.float32)
        return np.asarray(self._stored()[places], np.float32)

    def append(self, digests: Sequence[Digest], rows: Floats) -> None:
        """Add rows (n, width), on the disk when this returns; only inside `locked`."""
        if rows.shape != (len(digests), self.width):
            raise _damaged(
                self._folder, f"rows of shape {rows.shape}, not of {count_of(self.width, 'number')}"
            )
        self._write("rows.f32", self._count * self._row_bytes, rows.astype(_FLOAT).tobytes())
        data = b"".join(bytes.fromhex(digest) for digest in digests)
        self._write("digests.bin", self._count * _DIGEST_BYTES, data)
        for digest in digests:
            self._place[bytes.fromhex(digest)] = self._count
            self._count += 1

    def note_time(self, rows: int, seconds: float) -> None:
        """Remember that `rows` more rows took `seconds` of one core; only inside `locked`."""
        before, spent = self._timing()
        timing = {"rows": before + rows, "seconds": spent + seconds}
        _replace(self._folder / "timing.json", canonical_json(timing))

    def _stored(self) -> Floats:
        """Return all known rows, mapped once: to map them takes longer than to read one."""
        if self._mapped is None or len(self._mapped) != self._count:
            shape, path = (self._count, self.width), self._folder / "rows.f32"
            self._mapped = np.memmap(path, _FLOAT, "r", shape=shape)
        return self._mapped

    def _timing(self) -> tuple[int, float]:
        path = self._folder / "timing.json"
        try:
            timing = json.loads(path.read_bytes()) if path.exists() else {"rows": 0, "seconds": 0.0}
            return int(timing["rows"]), float(timing["seconds"])
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(self._folder, f"timing.json: {error}") from error

    def _write(self, name: str, position: int, data: bytes) -> None:
        """Write behind the last whole row; what a killed process left there is overwritten."""
        try:
            with (self._folder / name).open("ab") as file:
                file.truncate(position)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self._folder, error) from error

    @property
    def _row_bytes(self) -> int:
        return self.width * _FLOAT.itemsize

    def _size(self, name: str) -> int:
        path = self._folder / name
        return path.stat().st_size if path.exists() else 0


def _folder(cache: Path, origin: Origin) -> Path:
    return cache / Digest.of(canonical_json(dict(origin)))


def _replace(path: Path, data: bytes) -> None:
    """Write a whole file or nothing of it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)


def _unwritable(folder: Path, error: OSError) -> BackboneError:
    return BackboneError(
        f"{folder}: cannot be written: {error.strerror}; free some space, or name another folder "
        "in FLEETLEDGER_CACHE"
    )


def _damaged(folder: Path, why: str) -> BackboneError:
    return BackboneError(f"{folder}: {why}; delete this folder, it is only a cache")
