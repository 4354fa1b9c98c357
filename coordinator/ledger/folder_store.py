"""Blobs in a local folder: `<root>/<first two digits>/<digest>`.

A blob is written beside its place, made durable, then renamed: under its name there is either the
whole blob or nothing, whenever the power goes. Names count as well: what an earlier run made, and
was killed before it made it durable, is made durable before it is relied on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from coordinator.errors import BlobError, BlobMissingError
from schemas.values import Digest

PART_BYTES = 1 << 18
"""Blobs are read and written in parts of this size. On a virtual machine with Linux 6.18, writing
45 MB at once took 100 ms of the processor, and in such parts 14."""

_TEMPORARY = "incoming"


class FolderStore:
    """The place of blobs on a local disk; knows bytes and names, checks nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._durable: set[Path] = set()
        """Folders whose names this run has made durable."""

    def path(self, digest: Digest) -> Path:
        """Return where the blob is, or would be."""
        return self.root / digest[:2] / digest

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Store a blob durably; raise `BlobError` when the disk refuses."""
        target = self.path(digest)
        temporary = self.root / _TEMPORARY / f"{digest[:16]}.{secrets.token_hex(8)}"
        try:
            self._make_folder(target.parent)
            self._make_folder(temporary.parent)
            write_durably(temporary, parts)
            temporary.replace(target)
            fsync_folder(target.parent)
        except OSError as error:
            raise _not_written(target, error) from error
        finally:
            with contextlib.suppress(OSError):  # after success it has moved away
                temporary.unlink()

    def adopt(self, digest: Digest, path: Path) -> bool:
        """Move a file here durably; return False where it is gone, or on another disk.

        Raises `BlobError` when the disk refuses.
        """
        target = self.path(digest)
        try:
            self._make_folder(target.parent)
            fsync_file(path)
            path.replace(target)
            fsync_folder(target.parent)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EXDEV):
                return False
            raise _not_written(target, error) from error
        return True

    def settle(self, digest: Digest) -> None:
        """Make the name of a blob that is there durable; its bytes are, since it has its name."""
        target = self.path(digest)
        try:
            self._make_folder(target.parent)
            fsync_folder(target.parent)
        except OSError as error:
            raise _not_written(target, error) from error

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield the blob's bytes in parts; raise `BlobMissingError` where there is none."""
        try:
            with self.path(digest).open("rb") as file:
                while part := file.read(PART_BYTES):
                    yield part
        except FileNotFoundError as error:
            raise BlobMissingError(f"blob {digest}: not in {self.root}; restore it") from error
        except OSError as error:
            raise BlobError(f"{self.path(digest)}: cannot be read: {error.strerror}") from error

    def size(self, digest: Digest) -> int | None:
        """Return the blob's size in bytes; None where there is none."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, digest: Digest) -> None:
        """Remove the blob, if it is there."""
        self.path(digest).unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        if folder not in self._durable:
            make_folder(folder)
            self._durable.add(folder)


def fsync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    _fsync(folder, os.O_DIRECTORY)


def fsync_file(path: Path) -> None:
    """Make the bytes of a file durable, whoever wrote them."""
    _fsync(path)


def _fsync(path: Path, flags: int = 0) -> None:
    handle = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing, and their names durable.

    The name of a folder that is there may still be at risk: its maker may have been killed before
    it made the name durable. Those of its parents are not, since they came first.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
    fsync_folder(folder.parent)


def _not_written(target: Path, error: OSError) -> BlobError:
    return BlobError(f"{target}: cannot be written: {error.strerror}; mend it")


def write_durably(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file and have its bytes on the disk; its name is not. Raises `OSError`."""
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
