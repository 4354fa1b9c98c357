"""Named objects in a folder or under a URL: what an exported or mirrored ledger is made of.

Only small ones, read and written whole; large blobs have their own places (`blobs`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleetledger.coordinator.ledger.folder_store import FolderObjects
from fleetledger.coordinator.ledger.fsspec_store import FsspecObjects

_FILE = "file://"


class Objects(Protocol):
    """Where objects lie under names such as `tile/0/x001/067`; all raise `BlobError`."""

    def read(self, name: str, most: int) -> bytes | None:
        """Return at most `most` bytes of an object; None where there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Store an object, in place of what has its name."""

    def clear(self, folder: str) -> None:
        """Remove what lies under a name, if anything does."""

    def place(self, name: str) -> str:
        """Return where an object lies, for people."""


@dataclass(frozen=True)
class FolderOf:
    """The objects whose names begin with a folder's."""

    objects: Objects
    folder: str

    def read(self, name: str, most: int) -> bytes | None:
        """Return at most `most` bytes of an object; None where there is none."""
        return self.objects.read(self._named(name), most)

    def write(self, name: str, data: bytes) -> None:
        """Store an object, in place of what has its name."""
        self.objects.write(self._named(name), data)

    def clear(self, folder: str) -> None:
        """Remove what lies under a name, if anything does."""
        self.objects.clear(self._named(folder))

    def place(self, name: str) -> str:
        """Return where an object lies, for people."""
        return self.objects.place(self._named(name))

    def _named(self, name: str) -> str:
        return f"{self.folder}/{name}"


def shard_objects(objects: Objects, number: int) -> Objects:
    """Return the objects of one shard of an exported or mirrored log; the first has no folder."""
    return FolderOf(objects, f"shard/{number}") if number else objects


def objects_at(location: str | Path, *, durable: bool = True) -> Objects:
    """Open a folder (a plain path, or `file://`) or any URL of fsspec's; raise `BlobError`.

    In a folder that is not `durable`, what was written may be gone when the power was.
    """
    text = os.fspath(location)
    if "://" in text and not text.startswith(_FILE):
        return FsspecObjects(text)
    return FolderObjects(Path(text.removeprefix(_FILE)), durable=durable)
