"""Classes that masks show: pixels by value, counted once per mask and kept by its digest.

The file has no names, so that classes.toml may change, and forgets the masks that a scan no longer
finds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.device_agent.samples.sources.cache import CacheFile
from fleetledger.device_agent.samples.sources.masks import decode_mask, pixels_of
from fleetledger.learning.errors import ImageError
from fleetledger.runtime.table_layout import atomic
from fleetledger.schemas.values import Digest


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


class ShownCache(CacheFile):
    """Digest of a mask to what it shows."""

    def __init__(self, path: Path) -> None:
        """Open or make the cache at `path`; raise `SourceError`."""
        super().__init__(
            path, "shown (digest TEXT PRIMARY KEY, pixels TEXT NOT NULL, fault TEXT NOT NULL)"
        )
        with self.failures():
            rows = self.db.execute("SELECT digest, pixels, fault FROM shown").fetchall()
            self._shown = {Digest(digest): _read(pixels, fault) for digest, pixels, fault in rows}

    def __len__(self) -> int:
        return len(self._shown)

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
        with self.failures(), atomic(self.db):
            self.db.executemany(statement, rows)


def _written(shown: ShownClasses) -> tuple[str, str]:
    return json.dumps(list(shown.pixels.items())), shown.fault


def _read(pixels: str, fault: str) -> ShownClasses:
    return ShownClasses({int(value): int(count) for value, count in json.loads(pixels)}, fault)
