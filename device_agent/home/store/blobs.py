"""A folder of files named by their SHA-256: models that came, and payloads that wait to go.

A file is written beside its place, made durable, then renamed: under its name there is either the
whole file or nothing, whenever the power goes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from fleetledger.device_agent.errors import DamagedError, StoreError
from fleetledger.runtime.regular_files import open_regular
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE, Offer
from fleetledger.schemas.values import Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError
from fleetledger.transport.part_file import drop_foreign, file_identity

PART = ".part"
"""Ends the name of a file that is being fetched."""
_PIECE = 1 << 18
"""Bytes that are read or written at once; to write all of a large file at once takes longer."""


class OffersPayloads(Protocol):
    """Where payloads wait that are too large to be attached to a message."""

    def offer(self, data: bytes) -> Offer:
        """Keep a payload; return by what it is fetched."""


class BlobFolder:
    """Content-addressed files in one folder; what is not `durable` does not outlive a power cut."""

    def __init__(
        self, folder: Path, *, durable: bool = True, block_size: int = DEFAULT_BLOCK_SIZE
    ) -> None:
        """Open the folder, or make it; raise `StoreError` when the disk refuses.

        What it offers is cut into blocks of `block_size` bytes.
        """
        self.folder = folder
        self._durable = durable
        self._block_size = block_size
        self._offered: dict[Digest, tuple[BlockSource, object]] = {}
        """The file that was offered last, by its digest, as it was left."""
        try:
            make_folder(folder, durable=durable)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be made: {error.strerror}; mend it") from error

    def path(self, digest: Digest) -> Path:
        """Return where the file is, or would be."""
        return self.folder / digest

    def digests(self) -> frozenset[Digest]:
        """Return the files that are there, by name; `check` looks inside."""
        return frozenset(
            Digest(item.name)
            for item in self.folder.iterdir()
            if Digest.pattern.fullmatch(item.name)
        )

    def put(self, data: bytes, digest: Digest | None = None) -> Digest:
        """Store `data` durably and return its digest; raise `StoreError` when the disk refuses.

        Whoever has hashed it already gives its `digest`.
        """
        digest = digest or Digest.of(data)
        try:
            write_durably(self.path(digest), data, durable=self._durable)
        except OSError as error:
            raise StoreError(
                f"{self.folder}: {len(data)} bytes cannot be written: {error.strerror}; free some "
                "space"
            ) from error
        return digest

    def settle(self) -> None:
        """Make the names of all files durable; raise `StoreError` when the disk refuses.

        An earlier run may have been killed between giving a file its name and making that durable.
        """
        if not self._durable:
            return
        try:
            sync_folder(self.folder)
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be made durable: {error.strerror}") from error

    def check(self, digest: Digest) -> Path:
        """Return the path of a file after hashing it; raise `DamagedError` if it is not whole.

        A damaged file is removed, so that it is fetched again.
        """
        path = self.path(digest)
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            # Neither followed nor opened: a link leads out of the folder, a pipe blocks.
            path.unlink()
        try:
            found = file_digest(path)
        except OSError as error:
            raise DamagedError(digest, f"file {digest.short}: cannot be read: {error}") from error
        if found != digest:
            path.unlink(missing_ok=True)
            raise DamagedError(
                digest, f"file {digest.short}: its bytes are {found.short}; it is fetched again"
            )
        return path

    def offer(self, data: bytes) -> Offer:
        """Store `data` durably and return its offer; raises as `put` does."""
        source = BlockSource(data, self._block_size)
        digest = self.put(data, source.offer.digest)
        path = self.path(digest)
        self._offered = {digest: (source.in_file(path), file_identity(path))}
        return source.offer

    def source(self, offer: Offer) -> BlockSource:
        """Return what serves a file that was offered; raise `DamagedError` as `check` does.

        What was offered last is not hashed again while nobody has written to it since.
        """
        path = self.path(offer.digest)
        made, identity = self._offered.get(offer.digest, (None, None))
        if made is not None and made.offer == offer and identity == file_identity(path):
            return made
        # Of what is no such file `check` says what it is, and removes it.
        with suppress(OSError, BlockError):
            if stat.S_ISREG(path.lstat().st_mode):
                return BlockSource.offered(path, offer)
        return BlockSource(self.check(offer.digest), offer.block_size)

    def read(self, digest: Digest) -> bytes:
        """Return a file's bytes after checking them; raise `DamagedError`."""
        return self.check(digest).read_bytes()

    def clean(self, keep: Collection[Digest]) -> frozenset[Digest]:
        """Remove every file not named in `keep`, part files too; return what is left."""
        for item in self.others_than(keep):
            item.unlink(missing_ok=True)
        return self.digests()

    def others_than(self, keep: Collection[Digest]) -> list[Path]:
        """Return every file not named in `keep`, part files too."""
        return [item for item in self.folder.iterdir() if item.name.removesuffix(PART) not in keep]


def file_digest(path: Path) -> Digest:
    """Return the SHA-256 of a regular file, read in pieces; raise `OSError`."""
    whole = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            whole.update(piece)
    return Digest(whole.hexdigest())


def write_durably(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the file at `path` by `data`: after a power cut the old or the new one is there.

    If not `durable`, that holds when only the program dies.
    """
    temporary = path.with_name(path.name + ".new")
    drop_foreign(temporary)
    with temporary.open("wb") as file:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            file.write(view[start : start + _PIECE])
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_folder(path.parent)


def make_folder(folder: Path, *, durable: bool = True) -> None:
    """Make a folder and its parents where they are missing, and its name durable."""
    folder.mkdir(parents=True, exist_ok=True)
    if durable:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
