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

from fleetledger.coordinator.errors import BlobError, BlobMissingError
from fleetledger.schemas.values import Digest

PART_BYTES = 1 << 18
"""Blobs are read and written in parts of this size. On a virtual machine with Linux 6.18, writing
45 MB at once took 100 ms of the processor, and in such parts 14."""

_TEMPORARY = "incoming"


class FolderStore:
    """The place of blobs on a local disk; knows bytes and names, checks nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = _DurableFolders()

    def path(self, digest: Digest) -> Path:
        """Return where the blob is, or would be."""
        return self.root / digest[:2] / digest

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Store a blob durably; raise `BlobError` when the disk refuses."""
        target = self.path(digest)
        temporary = self.root / _TEMPORARY / f"{digest[:16]}.{secrets.token_hex(8)}"
        self._folders.write(target, temporary, parts)

    def adopt(self, digest: Digest, path: Path) -> bool:
        """Move a file here durably; return False where it is gone, or on another disk.

        Raises `BlobError` when the disk refuses.
        """
        target = self.path(digest)
        try:
            self._folders.make(target.parent)
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
            self._folders.make(target.parent)
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
        except OSError as error:
            raise BlobError(f"{self.path(digest)}: cannot be read: {error.strerror}") from error

    def delete(self, digest: Digest) -> None:
        """Remove the blob, if it is there."""
        self.path(digest).unlink(missing_ok=True)


class _DurableFolders:
    """Folders whose names this run has made durable."""

    def __init__(self) -> None:
        self._made: set[Path] = set()

    def make(self, folder: Path) -> None:
        """Make a folder, and its name durable, once."""
        if folder not in self._made:
            make_folder(folder)
            self._made.add(folder)

    def write(self, target: Path, temporary: Path, parts: Iterable[bytes]) -> None:
        """Write a file beside its place, then rename it; raise `BlobError` where that fails."""
        try:
            self.make(target.parent)
            self.make(temporary.parent)
            write_durably(temporary, parts)
            temporary.replace(target)
            fsync_folder(target.parent)
        except OSError as error:
            raise _not_written(target, error) from error
        finally:
            with contextlib.suppress(OSError):  # after success it has moved away
                temporary.unlink()


class FolderObjects:
    """Small objects in a folder, by their names; see `coordinator.ledger.objects`."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self._root = root
        self._folders = _DurableFolders() if durable else None

    def read(self, name: str, most: int) -> bytes | None:
        """Return at most `most` bytes of an object; None where there is none."""
        try:
            with (self._root / name).open("rb") as file:
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise BlobError(f"{self.place(name)}: cannot be read: {error.strerror}") from error

    def write(self, name: str, data: bytes) -> None:
        """Store an object whole, in place of what has its name."""
        target = self._root / name
        if self._folders is not None:
            temporary = self._root / _TEMPORARY / secrets.token_hex(8)
            self._folders.write(target, temporary, [data])
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise _not_written(target, error) from error

    def clear(self, folder: str) -> None:
        """Remove what lies under a name, if anything does."""
        path = self._root / folder
        if not path.is_dir():
            return
        try:
            for file in sorted(path.iterdir()):
                file.unlink()
            path.rmdir()
        except OSError as error:
            raise BlobError(f"{path}: cannot be removed: {error.strerror}; mend it") from error

    def place(self, name: str) -> str:
        """Return where an object lies, for people."""
        return str(self._root / name)


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
