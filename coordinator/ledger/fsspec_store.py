"""Blobs and other objects under a URL, by fsspec: an object store, another host, or memory.

An object is written in one go under its name. Object stores do that whole or not at all; elsewhere
a torn blob has another size or digest, so reading refuses it and putting it again replaces it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetledger.coordinator.errors import BlobError, BlobMissingError
from fleetledger.coordinator.ledger.folder_store import PART_BYTES
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import Digest


class FsspecStore:
    """The place of blobs under a URL; knows bytes and names, checks nothing."""

    def __init__(self, url: str) -> None:
        """Connect to `url`; raise `BlobError` where fsspec or the scheme's driver is missing."""
        self.url = url
        self._fs, self._root = _connect(url)

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Store a blob; raise `BlobError` when the other side refuses.

        Where the parts end by an error, what was written of them does not stay.
        """
        try:
            with _translated(f"blob {digest}: {self.url} refuses it"):
                self._fs.makedirs(f"{self._root}/{digest[:2]}", exist_ok=True)
                with self._fs.open(self._name(digest), "wb") as file:
                    for part in parts:
                        file.write(part)
        except FleetledgerError:
            with contextlib.suppress(BlobError):  # the first error is the one to tell
                self.delete(digest)
            raise

    def adopt(self, _digest: Digest, _path: Path) -> bool:
        """Take nothing: a file here is not there."""
        return False

    def settle(self, _digest: Digest) -> None:
        """Do nothing: what the other side has taken is its to keep."""

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield the blob's bytes in parts; raise `BlobMissingError` where there is none."""
        try:
            with (
                _translated(f"blob {digest}: {self.url} cannot be read"),
                self._fs.open(self._name(digest), "rb") as file,
            ):
                while part := file.read(PART_BYTES):
                    yield part
        except FileNotFoundError as error:
            raise BlobMissingError(f"blob {digest}: not under {self.url}; restore it") from error

    def size(self, digest: Digest) -> int | None:
        """Return the blob's size in bytes; None where there is none."""
        try:
            with _translated(f"blob {digest}: {self.url} cannot be asked"):
                return int(self._fs.size(self._name(digest)))
        except FileNotFoundError:
            return None

    def delete(self, digest: Digest) -> None:
        """Remove the blob, if it is there."""
        with _translated(f"blob {digest}: {self.url} does not delete it"):
            if self._fs.exists(self._name(digest)):
                self._fs.rm_file(self._name(digest))

    def sign(self, digest: Digest, seconds: int) -> str:
        """Return a URL by which anybody may read a blob for so long; raise `BlobError`.

        Whether there is such a blob is not asked.
        """
        with _translated(f"{self.url}: signs no URLs"):
            return str(self._fs.sign(self._name(digest), expiration=seconds))

    def _name(self, digest: Digest) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"


class FsspecObjects:
    """Small objects under a URL, by their names; see `coordinator.ledger.objects`."""

    def __init__(self, url: str) -> None:
        """Connect to `url`; raise `BlobError` where fsspec or the scheme's driver is missing."""
        self._url = url
        self._fs, self._root = _connect(url)

    def read(self, name: str, most: int) -> bytes | None:
        """Return at most `most` bytes of an object; None where there is none."""
        try:
            with _translated(f"{self.place(name)}: cannot be read"):
                return bytes(self._fs.cat_file(f"{self._root}/{name}", start=0, end=most))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Store an object, in place of what has its name."""
        path = f"{self._root}/{name}"
        with _translated(f"{self.place(name)}: is refused"):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, data)

    def clear(self, folder: str) -> None:
        """Remove what lies under a name, if anything does."""
        try:
            with _translated(f"{self.place(folder)}: cannot be removed"):
                for path in self._fs.ls(f"{self._root}/{folder}", detail=False, refresh=True):
                    self._fs.rm_file(path)
                if self._fs.isdir(f"{self._root}/{folder}"):  # object stores have no folders
                    self._fs.rmdir(f"{self._root}/{folder}")
        except FileNotFoundError:
            return

    def place(self, name: str) -> str:
        """Return where an object lies, for people."""
        return f"{self._url.rstrip('/')}/{name}"


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Make a `BlobError` of whatever a driver raises; that something is not there passes."""
    try:
        yield
    except (FileNotFoundError, FleetledgerError):
        raise
    except Exception as error:  # drivers have errors of their own for networks and passwords
        raise BlobError(f"{what}: {error or repr(error)}; mend it, and try again") from error


def _connect(url: str) -> tuple[Any, str]:
    try:
        # Only coordinators with a remote store pay for it.
        import fsspec  # noqa: PLC0415
    except ImportError as error:
        raise BlobError(f"blobs: {url!r} needs fsspec; `{pip_install('coordinator')}`") from error
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise BlobError(f"blobs: {url!r} cannot be opened: {error}") from error
    return filesystem, str(root).rstrip("/")
