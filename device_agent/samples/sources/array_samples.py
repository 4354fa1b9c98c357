"""Samples in files of arrays: their digests, found once per file and kept by the file's digest.

The file has no names, and forgets what a scan no longer finds, as that of masks does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.samples.array_files import Shape, read_content, rows_of
from fleetledger.device_agent.samples.sources.cache import CacheFile
from fleetledger.runtime.table_layout import atomic
from fleetledger.schemas.values import Digest


@dataclass(frozen=True)
class FileRows:
    """Digests of the samples in one file, row by row."""

    digests: tuple[Digest, ...]
    alone: bool
    """Whether the file is one sample itself."""

    def named(self, path: str) -> list[tuple[str, Digest]]:
        """Return path and digest of each sample in the file at `path`."""
        if self.alone:
            return [(path, self.digests[0])]
        return [(f"{path}#{row}", digest) for row, digest in enumerate(self.digests)]


class ArraySamples(CacheFile):
    """Digest of a file of arrays to the samples in it, by the shape of one; for one thread."""

    def __init__(self, path: Path, shape: Shape | None) -> None:
        """Open or make the cache at `path`; raise `SourceError`."""
        super().__init__(
            path,
            "held (file TEXT, shape TEXT, alone INTEGER NOT NULL, digests TEXT NOT NULL,"
            " PRIMARY KEY (file, shape))",
        )
        self._shape = shape
        with self.failures():
            rows = self.db.execute(
                "SELECT file, alone, digests FROM held WHERE shape = ?", (str(shape),)
            )
            self._held = {
                Digest(file): FileRows(tuple(map(Digest, digests.split())), bool(alone))
                for file, alone, digests in rows
            }
        self._asked: set[Digest] = set()

    def of_file(self, path: Path, digest: Digest) -> FileRows:
        """Return the samples of a file; raise `ArrayError`, `OSError` where it cannot be read."""
        if digest not in self._held:
            rows = rows_of(path, self._shape)
            names = [path] if rows is None else [Path(f"{path}#{row}") for row in range(rows)]
            held = FileRows(tuple(Digest.of(read_content(name)) for name in names), rows is None)
            self._held[digest] = held
            row = (digest, str(self._shape), held.alone, " ".join(held.digests))
            with self.failures():
                self.db.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)", row)
        self._asked.add(digest)
        return self._held[digest]

    def end_scan(self) -> None:
        """Forget files that were not asked for since the last scan."""
        gone = self._held.keys() - self._asked
        if gone:
            with self.failures(), atomic(self.db):
                self.db.executemany(
                    "DELETE FROM held WHERE file = ?", [(digest,) for digest in sorted(gone)]
                )
        self._held = {digest: self._held[digest] for digest in self._asked}
        self._asked = set()
