"""A blob store that reads where the coordinator's is, and keeps in memory what is put into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fleetledger.coordinator.ledger.blobs import BlobPlace, BlobStore
from fleetledger.schemas.values import Digest


class KeepingStore(BlobStore):
    """Lets makers read blobs beside a running coordinator, or of a copy, without writing any."""

    def __init__(self, location: str | Path) -> None:
        super().__init__(location)
        self._kept = _Kept(self.place)
        self.place = self._kept

    def made(self, digest: Digest) -> bytes | None:
        """Return what was put in and was not there before; None where nothing of it was."""
        return self._kept.written.get(digest)

    def forget(self) -> None:
        """Let go of what was put in."""
        self._kept.written.clear()


class _Kept:
    """A place over another one, which it never changes."""

    def __init__(self, below: BlobPlace) -> None:
        self._below = below
        self.written: dict[Digest, bytes] = {}

    def write(self, digest: Digest, parts: Iterable[bytes]) -> None:
        """Keep a blob."""
        self.written[digest] = b"".join(parts)

    def adopt(self, _digest: Digest, _path: Path) -> bool:
        """Move nothing: what is put in is kept in memory."""
        return False

    def settle(self, digest: Digest) -> None:
        """Leave what is there as it is."""

    def parts(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob's bytes, of what is kept first."""
        if digest in self.written:
            yield self.written[digest]
        else:
            yield from self._below.parts(digest)

    def size(self, digest: Digest) -> int | None:
        """Return a blob's size; None where there is none."""
        kept = self.written.get(digest)
        return self._below.size(digest) if kept is None else len(kept)

    def delete(self, digest: Digest) -> None:
        """Forget a blob that is kept."""
        self.written.pop(digest, None)
