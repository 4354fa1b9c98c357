"""States that the entries give, kept beside the ledger: a start need not read all of history.

    snapshots/<size>.state      a line of JSON: what it is of, and of which parts; then these

A snapshot is a cache: whatever is wrong with one, the entries give the state. It is taken only
where the coordinator's own key signed it, the ledger has its size and had its root then, the same
program folds, and each part that is read has its digest; others are not read. Without that key none
is written or read. Under its name there is either all of it or nothing: it is written beside its
place, made durable, then renamed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger import folder_store
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest

KEPT = 2
"""Snapshots that stay: the newest, and the one before it for where that is damaged."""
_FORMAT = 1
_MOST_HEAD_BYTES = 8192
_SUFFIX = ".state"
_DOMAIN = "fleetledger kept state"


class SnapshotPart(Strict):
    """One part of a state: its name, its bytes, and their digest."""

    name: str = Field(min_length=1, max_length=64)
    bytes: int = Field(ge=0)
    digest: Digest


class SnapshotHead(Strict):
    """What a snapshot is of."""

    format: int = Field(default=_FORMAT, ge=_FORMAT, le=_FORMAT)
    size: int = Field(ge=1)
    """Entries that were folded."""
    root: Digest
    """Of the tree over them."""
    program: Digest
    """Of everything that a state follows from beside the entries."""
    parts: tuple[SnapshotPart, ...]
    """In the order of the file."""
    signature: str = Field(default="", pattern=r"^([0-9a-f]{128})?$")
    """Of the coordinator, in hexadecimal digits, over all of this with an empty signature."""

    @property
    def signed_bytes(self) -> bytes:
        """Bytes that the signature is of."""
        return self.model_copy(update={"signature": ""}).model_dump_json().encode()


@dataclass(frozen=True)
class StoredState:
    """A snapshot that fits its ledger, whose parts are read when they are asked for."""

    head: SnapshotHead
    path: Path
    start: int
    """Bytes of the file before its first part."""

    def part(self, name: str) -> bytes:
        """Return the bytes of a part; raise `SnapshotError` where they are not those signed."""
        start = self.start
        for part in self.head.parts:
            if part.name == name:
                break
            start += part.bytes
        else:
            raise SnapshotError(f"{name}: no such part")
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                data = file.read(part.bytes)
        except OSError as error:
            raise SnapshotError(f"{name}: cannot be read: {error.strerror}") from error
        if Digest.of(data) != part.digest:
            raise SnapshotError(f"{name}: its bytes have another digest than {part.digest.short}")
        return data

    def parts(self) -> dict[str, bytes]:
        """Return all parts; raise `SnapshotError` where one is not as it was signed."""
        return {part.name: self.part(part.name) for part in self.head.parts}


def snapshot_files(ledger_file: Path, folder: str = "snapshots") -> list[Path]:
    """Return the files of all snapshots of a ledger, the newest first."""
    found = (ledger_file.parent / folder).glob(f"*{_SUFFIX}")
    kept = (path for path in found if path.stem.isdecimal())
    return sorted(kept, key=lambda path: int(path.stem), reverse=True)


class StateSnapshots:
    """The snapshots of one ledger, as one program writes and reads them."""

    def __init__(
        self,
        ledger_file: Path,
        program: Digest,
        key: SigningKey | None,
        folder: str = "snapshots",
    ) -> None:
        """Use the coordinator's own key; None where there is none.

        `folder` lies beside the ledger.
        """
        self.folder = ledger_file.parent / folder
        self._file = ledger_file
        self._program = program
        self._key = key

    def files(self) -> list[Path]:
        """Return the files of all snapshots, the newest first."""
        return snapshot_files(self._file, self.folder.name)

    def read(self, path: Path, ledger: LedgerReader) -> StoredState:
        """Return a snapshot that fits the ledger; raise `SnapshotError` saying what does not."""
        try:
            with path.open("rb") as file:
                line = file.readline(_MOST_HEAD_BYTES)
                head = SnapshotHead.model_validate_json(line)
                self._check(head, ledger)
                length = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise SnapshotError(f"cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise SnapshotError(f"{shorten(line)} is no head: {explain(error)}") from error
        except SignatureError as error:
            raise SnapshotError(str(error)) from error
        whole = len(line) + sum(part.bytes for part in head.parts)
        if length != whole:
            raise SnapshotError(f"it has {count_of(length, 'byte')} instead of {whole}")
        return StoredState(head, path, len(line))

    def _check(self, head: SnapshotHead, ledger: LedgerReader) -> None:
        signed = bytes.fromhex(head.signature)
        self._signer.verify_key.check(signed, _DOMAIN, head.signed_bytes)
        if head.program != self._program:
            raise SnapshotError("written by another version of this program")
        if head.size > ledger.size:
            raise SnapshotError(
                f"of {count_of(head.size, 'entry', 'entries')}; the ledger has {ledger.size}"
            )
        try:
            root = ledger.root_at(head.size)
        except LookupError as error:
            raise SnapshotError(f"the tree has no root of {head.size}: {error}") from error
        if root != head.root:
            raise SnapshotError(f"of another history: root {head.root.short} at its size")

    def write(self, parts: Mapping[str, bytes], ledger: LedgerReader, size: int) -> Path:
        """Store the state that the first `size` entries give; delete all but the newest ones.

        Durable when this returns. Raises `SnapshotError` when the disk refuses.
        """
        key, root = self._signer, ledger.root_at(size)
        told = tuple(
            SnapshotPart(name=name, bytes=len(data), digest=Digest.of(data))
            for name, data in parts.items()
        )
        unsigned = SnapshotHead(size=size, root=root, program=self._program, parts=told)
        signature = key.sign(_DOMAIN, unsigned.signed_bytes).hex()
        head = unsigned.model_copy(update={"signature": signature})
        target = self.folder / f"{size}{_SUFFIX}"
        temporary = self.folder / f"{size}.{secrets.token_hex(8)}.new"
        try:
            folder_store.make_folder(self.folder)
            folder_store.write_durably(temporary, _bytes(head, parts))
            temporary.replace(target)
            folder_store.fsync_folder(self.folder)
            self._tidy()
        except OSError as error:
            raise SnapshotError(
                f"{target}: cannot be written: {error.strerror}; the state is read from the "
                "entries, until it can"
            ) from error
        finally:
            with contextlib.suppress(OSError):  # after success it has moved away
                temporary.unlink()
        return target

    @property
    def _signer(self) -> SigningKey:
        if self._key is None:
            raise SnapshotError(
                "no key of the coordinator lies here; states are kept with one only"
            )
        return self._key

    def forget(self, path: Path) -> None:
        """Delete one that is wrong, if it can be deleted."""
        with contextlib.suppress(OSError):
            path.unlink()

    def _tidy(self) -> None:
        """Delete all but the newest ones, and what writers left that were killed."""
        for path in (*self.files()[KEPT:], *self.folder.glob("*.new")):
            path.unlink(missing_ok=True)


def _bytes(head: SnapshotHead, parts: Mapping[str, bytes]) -> Iterator[bytes]:
    yield head.model_dump_json().encode() + b"\n"
    for data in parts.values():
        for start in range(0, len(data), folder_store.PART_BYTES):
            yield data[start : start + folder_store.PART_BYTES]
