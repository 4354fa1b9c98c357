"""Content-addressed bytes that entries name by digest.

`BlobStore` is the place of large blobs, a folder or an fsspec URL; `Blobs` looks into the ledger's
database first, where small ones are. Everything that comes out has the digest it was asked by.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from fleetledger.coordinator.errors import BlobCorruptError, BlobMissingError, BlobPrunedError
from fleetledger.coordinator.ledger.folder_store import PART_BYTES, FolderStore
from fleetledger.coordinator.ledger.fsspec_store import FsspecStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES, Ledger
from fleetledger.schemas.values import Digest


class BlobPlace(Protocol):
    """Where a store keeps bytes under names; `folder_store` and `fsspec_store` are the two."""

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Store a blob."""

    def adopt(self, digest: Digest, path: Path) -> bool:
        """Move a file here as a blob; return False where its bytes have to be written."""

    def settle(self, digest: Digest) -> None:
        """Make sure that a blob that is there stays, whatever happens to the machine."""

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield its bytes; raise `BlobMissingError` where there is none."""

    def size(self, digest: Digest) -> int | None:
        """Return its size; None where there is none."""

    def delete(self, digest: Digest) -> None:
        """Remove it, if it is there."""


class BlobStore:
    """Blobs in a folder (a plain path) or under a URL with a scheme (by fsspec)."""

    def __init__(self, location: str | Path) -> None:
        """Open the store; nothing is made before the first blob. Raises `BlobError`."""
        self.place: BlobPlace = _place(location)

    def put(self, data: bytes, digest: Digest | None = None) -> Digest:
        """Store bytes and return their digest; durable when this returns, on a local folder.

        Whoever has hashed them already gives their `digest`.
        """
        digest = digest or Digest.of(data)
        parts = (data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES))
        self._write_unless_held(digest, len(data), parts)
        return digest

    def adopt(self, path: Path, digest: Digest) -> bool:
        """Move a file into the store, durably, whose bytes are known to have this digest.

        Nothing is read or written. Returns False where it cannot be moved, since it lies on another
        disk, the store is behind a URL, or it is gone: put its bytes then. A file whose blob is
        held already stays. Raises `BlobError` when the disk refuses.
        """
        if self.has(digest) and self._intact(digest):
            self.place.settle(digest)
            return True
        return self.place.adopt(digest, path)

    def take(self, other: BlobStore, digest: Digest) -> None:
        """Store a blob of another store, part by part; raise what `parts` raises."""
        if not (self.has(digest) and self._intact(digest)):
            self.place.write(digest, other.parts(digest))

    def get(self, digest: Digest) -> bytes:
        """Return a blob; raise `BlobMissingError` or `BlobCorruptError`."""
        return b"".join(self.parts(digest))

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob in parts; raise `BlobCorruptError` at the end if they do not fit."""
        yield from checked(digest, self.place.parts(digest))

    def check(self, digest: Digest) -> None:
        """Read a blob through, part by part; raise what `parts` raises."""
        for _ in self.parts(digest):
            pass

    def size(self, digest: Digest) -> int | None:
        """Return a blob's size in bytes; None where there is none."""
        return self.place.size(digest)

    def has(self, digest: Digest) -> bool:
        """Whether there is a blob of this name; its bytes are not checked."""
        return self.size(digest) is not None

    def delete(self, digest: Digest) -> None:
        """Remove a blob, if it is there."""
        self.place.delete(digest)

    def local_path(self, digest: Digest) -> Path | None:
        """Return the file of a blob; None where the store is no folder or lacks it.

        For readers that check what they read (blocks, models pinned by a manifest).
        """
        if isinstance(self.place, FolderStore) and self.has(digest):
            return self.place.path(digest)
        return None

    def _write_unless_held(self, digest: Digest, size: int, parts: Iterable[bytes]) -> None:
        if self.place.size(digest) != size or not self._intact(digest):
            self.place.write(digest, parts)
        else:
            self.place.settle(digest)

    def _intact(self, digest: Digest) -> bool:
        """Whether the bytes held fit; putting a damaged blob again mends it."""
        try:
            self.check(digest)
        except BlobCorruptError:
            return False
        return True


class Blobs:
    """All blobs of a ledger: small ones in its database, large ones in its store."""

    def __init__(self, ledger: LedgerReader, store: BlobStore) -> None:
        self.ledger = ledger
        self.store = store

    def stage(self, contents: Iterable[bytes]) -> dict[Digest, bytes]:
        """Store what is large now; return what is small, for `Ledger.append` to commit."""
        return self.stage_named({Digest.of(content): content for content in contents})

    def stage_named(self, contents: Mapping[Digest, bytes]) -> dict[Digest, bytes]:
        """Do the same with contents whose digests are known."""
        small = {}
        for digest, content in contents.items():
            if len(content) > SMALL_BLOB_BYTES:
                self.store.put(content, digest)
            else:
                small[digest] = content
        return small

    def get(self, digest: Digest) -> bytes:
        """Return a blob; raise `BlobMissingError`, `BlobPrunedError` or `BlobCorruptError`."""
        return b"".join(self.parts(digest))

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob in parts, checked; raises what `get` raises."""
        row = self.ledger.blob(digest)
        if row is not None and row.content is not None:
            yield from checked(digest, [row.content])
            return
        try:
            yield from self.store.parts(digest)
        except BlobMissingError as error:
            size = self.ledger.runs.unkept(digest) if row is None else row.size
            if size is None:
                raise
            raise BlobPrunedError(
                f"blob {digest}: {size} bytes, deleted by retention; its entry stays"
            ) from error

    def check(self, digest: Digest) -> None:
        """Read a blob through, part by part; raise what `get` raises."""
        for _ in self.parts(digest):
            pass

    def size(self, digest: Digest) -> int | None:
        """Return a blob's size in bytes; None where its bytes are not held."""
        row = self.ledger.blob(digest)
        if row is not None and not row.pruned:
            return row.size
        return self.store.size(digest)

    def has(self, digest: Digest) -> bool:
        """Whether the blob's bytes are held; they are not checked."""
        return self.size(digest) is not None


def prune_held(ledger: Ledger, store: BlobStore, digests: Iterable[Digest]) -> int:
    """Delete the bytes of those blobs that are held, with one commit; return their number.

    The mark is committed first: a crash in between leaves bytes that nobody needs, not a hole that
    nobody can explain.
    """
    blobs = Blobs(ledger, store)
    sizes = {digest: size for digest in digests if (size := blobs.size(digest)) is not None}
    ledger.mark_pruned(sizes)
    for digest in sizes:
        store.delete(digest)
    return len(sizes)


def _place(location: str | Path) -> BlobPlace:
    text = os.fspath(location)
    if "://" not in text:
        return FolderStore(Path(text))
    if text.startswith("file://"):
        return FolderStore(Path(text.removeprefix("file://")))
    return FsspecStore(text)


def checked(digest: Digest, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Pass parts through; raise `BlobCorruptError` after the last if they have another digest."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
        yield part
    found = Digest(hasher.hexdigest())
    if found != digest:
        raise BlobCorruptError(digest, found)
