"""Named objects in a folder or under a URL: what an exported or mirrored ledger is made of.

Only small ones, read and written whole; large blobs have their own places (`blobs`).
"""

from __future__ import annotations

import os
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


def objects_at(location: str | Path, *, durable: bool = True) -> Objects:
    """Open a folder (a plain path, or `file://`) or any URL of fsspec's; raise `BlobError`.

    In a folder that is not `durable`, what was written may be gone when the power was.
    """
    text = os.fspath(location)
    if "://" in text and not text.startswith(_FILE):
        return FsspecObjects(text)
    return FolderObjects(Path(text.removeprefix(_FILE)), durable=durable)
