"""The file in which blocks are collected until the data is whole.

It is written without a buffer: what the disk refuses is refused where it is written, and closing
the file, also after that, has nothing left to write.

The whole is hashed as blocks come in their order. One that comes before its turn is read back once
it is its turn.

It lies beside its destination, has its full size from the beginning, and is the only state of a
transfer that outlives the program: after a restart its blocks are hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest
from fleetledger.transport.errors import BlockError

_PIECE_BYTES = 1 << 20
"""Read at once where a whole file is hashed."""


class PartFile:
    """Blocks of one offer on disk; `OSError` passes through to the caller, but never from `close`.

    Whoever is refused by a full disk finds the blocks of before with the next attempt.
    """

    def __init__(self, offer: Offer, destination: Path) -> None:
        self._offer = offer
        self._destination = destination
        self.path = destination.with_name(destination.name + ".part")
        drop_foreign(self.path)
        self._existed = self.path.exists()
        destination.parent.mkdir(parents=True, exist_ok=True)
        self._whole, self._hashed = hashlib.sha256(), 0
        """Hash of the first blocks, and how many those are."""
        self._ahead: set[int] = set()
        """Blocks that lie here and are not in the hash yet."""
        self._file = self.path.open("r+b" if self._existed else "w+b", buffering=0)
        try:
            self._file.truncate(offer.size)
            # Reserves the space, so that a full disk shows now and not in the middle.
            os.posix_fallocate(self._file.fileno(), 0, offer.size)
        except OSError:
            self.close()
            if not self._existed:
                self.path.unlink()  # nothing is in it, and it may have taken the rest of the disk
            raise

    @staticmethod
    def lies_beside(destination: Path) -> bool:
        """Return whether blocks of an earlier attempt may lie beside a destination."""
        return destination.with_name(destination.name + ".part").exists()

    def write(self, index: int, block: bytes | memoryview) -> None:
        """Put a block into its place; each is put there once."""
        start, rest = index * self._offer.block_size, memoryview(block)
        while rest:
            written = os.pwrite(self._file.fileno(), rest, start)
            start, rest = start + written, rest[written:]
        if index == self._hashed:
            self._whole.update(block)
            self._hashed += 1
        else:
            self._ahead.add(index)
        self._catch_up()

    def take_over(self, indices: Iterable[int]) -> None:
        """Count blocks as written that lie here already."""
        self._ahead.update(indices)
        self._catch_up()

    def is_right(self) -> bool:
        """Return whether all blocks together have the offered digest."""
        return self._hashed == self._offer.block_count and self._digest == self._offer.digest

    def begin_again(self, right: Iterable[int]) -> None:
        """Hash again; the blocks that are right lie here."""
        self._whole, self._hashed, self._ahead = hashlib.sha256(), 0, set()
        self.take_over(right)

    def blocks(self) -> Iterator[bytes]:
        """Return the bytes of every block as they lie here."""
        return self._blocks()

    @property
    def _digest(self) -> str:
        return self._whole.hexdigest()

    def _catch_up(self) -> None:
        while self._hashed in self._ahead:
            self._ahead.remove(self._hashed)
            size = self._offer.block_size
            self._whole.update(os.pread(self._file.fileno(), size, self._hashed * size))
            self._hashed += 1

    def old_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return index and bytes of every block; of a fresh file, empty ones without reading."""
        if self._existed:
            yield from enumerate(self._blocks())
        else:
            yield from ((index, b"") for index in range(self._offer.block_count))

    def finish(self) -> Path:
        """Make it durable and move it to its destination; all of it is there.

        Raises `BlockError`, and removes the file, if the digest of the whole is wrong although each
        block was right: then the offer contradicts itself, and no block can mend that.
        """
        if not self.is_right():
            self.close()
            self.path.unlink()
            raise BlockError(
                f"digest: the blocks are those of the list, yet make {self._digest[:12]}… and "
                f"not the offered {self._offer.digest.short}…; the offer contradicts itself"
            )
        os.fsync(self._file.fileno())
        self.close()
        self.path.replace(self._destination)
        _sync_directory(self._destination.parent)
        return self._destination

    def close(self) -> None:
        """Close the file and leave it where it is, to be resumed."""
        with contextlib.suppress(OSError):  # it is closed all the same, and holds nothing back
            self._file.close()

    def _blocks(self) -> Iterator[bytes]:
        self._file.seek(0)
        for _ in range(self._offer.block_count):
            yield self._file.read(self._offer.block_size)


def drop_foreign(path: Path) -> None:
    """Remove a name that stands for no file of its own, before anything is written there.

    A link, also a hard one, would have somebody else's file overwritten; a pipe would block.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        path.unlink()


def file_identity(path: Path) -> object:
    """Return what changes when a file is written to, or another thing takes its place.

    None where there is nothing.
    """
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_digest(path: Path) -> Digest:
    """Return the SHA-256 of a file, read in pieces."""
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            whole.update(piece)
    return Digest(whole.hexdigest())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
