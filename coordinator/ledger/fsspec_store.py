"""Blobs under a URL, by fsspec: an object store, another host, or memory.

A blob is written in one go under its name. Object stores do that whole or not at all; elsewhere a
torn one has another size or digest, so reading refuses it and putting it again replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coordinator.errors import BlobError, BlobMissingError
from coordinator.ledger.folder_store import PART_BYTES
from schemas.installing import pip_install
from schemas.values import Digest


class FsspecStore:
    """The place of blobs under a URL; knows bytes and names, checks nothing."""

    def __init__(self, url: str) -> None:
        """Connect to `url`; raise `BlobError` where fsspec or the scheme's driver is missing."""
        self.url = url
        self._fs, self._root = _connect(url)

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Store a blob; raise `BlobError` when the other side refuses."""
        try:
            self._fs.makedirs(f"{self._root}/{digest[:2]}", exist_ok=True)
            with self._fs.open(self._name(digest), "wb") as file:
                for part in parts:
                    file.write(part)
        except OSError as error:
            raise BlobError(f"blob {digest}: {self.url} refuses it: {error}; mend it") from error

    def adopt(self, _digest: Digest, _path: Path) -> bool:
        """Take nothing: a file here is not there."""
        return False

    def settle(self, _digest: Digest) -> None:
        """Do nothing: what the other side has taken is its to keep."""

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield the blob's bytes in parts; raise `BlobMissingError` where there is none."""
        try:
            with self._fs.open(self._name(digest), "rb") as file:
                while part := file.read(PART_BYTES):
                    yield part
        except FileNotFoundError as error:
            raise BlobMissingError(f"blob {digest}: not under {self.url}; restore it") from error
        except OSError as error:
            raise BlobError(f"blob {digest}: {self.url} cannot be read: {error}") from error

    def size(self, digest: Digest) -> int | None:
        """Return the blob's size in bytes; None where there is none."""
        try:
            return int(self._fs.size(self._name(digest)))
        except FileNotFoundError:
            return None

    def delete(self, digest: Digest) -> None:
        """Remove the blob, if it is there."""
        if self._fs.exists(self._name(digest)):
            self._fs.rm_file(self._name(digest))

    def _name(self, digest: Digest) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"


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
