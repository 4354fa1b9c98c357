"""Walk the whole ledger and name the first thing that does not fit.

In the order of the entries:

- indices count from 0 without a gap;
- every row is the canonical form of its entry, and its leaf is the hash of the entry's bytes;
- every blob that an entry names is held and has its digest (a pruned one is listed, not a fault);
- every checkpoint's root follows from the leaves before it, and the newest covers all entries;
- signed notes are this coordinator's, and of their checkpoint;
- the stored nodes of the tree follow from the leaves;

then the projections: their tables equal a rebuild from the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.errors import (
    BlobCorruptError,
    BlobError,
    BlobMissingError,
    BlobPrunedError,
    LedgerCorruptError,
    Mismatch,
)
from coordinator.ledger.blobs import Blobs
from coordinator.ledger.entries import Entry
from coordinator.ledger.reader import LedgerReader, StoredCheckpoint
from schemas.errors import SignatureError
from schemas.proofs.tree import Frontier
from schemas.values import Digest

ReadNote = Callable[[str], tuple[int, Digest]]
"""Returns size and root of a signed note; raises `SignatureError`."""

_BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class VerificationReport:
    """How much was walked, and the first mismatch, if any; counts end where the walk ended."""

    entries: int
    checkpoints: int
    blobs: int
    """Different blobs whose bytes were read and fit."""
    pruned: tuple[Digest, ...]
    """Blobs that were deleted on purpose, in the order in which entries name them."""
    root: Digest
    """Root over the entries walked, computed from their bytes."""
    mismatch: Mismatch | None

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return self.mismatch is None

    def __str__(self) -> str:
        """Return one sentence for the operator."""
        if self.mismatch is not None:
            return str(self.mismatch)
        pruned = f", {len(self.pruned)} pruned" if self.pruned else ""
        return (
            f"{self.entries} entries, {self.checkpoints} checkpoints and {self.blobs} blobs fit"
            f"{pruned}; root {self.root}"
        )


def verify(
    ledger: LedgerReader,
    blobs: Blobs,
    progress: Callable[[int], None] | None = None,
    read_note: ReadNote | None = None,
) -> VerificationReport:
    """Check one state of the ledger, also while its writer goes on; never raises for a mismatch.

    With `read_note` the signed notes of checkpoints are checked too. `progress` is called with the
    number of entries walked. The cost is that of reading everything once: entries, blobs, and the
    projections' rules.
    """
    walk = _Walk(ledger, blobs, progress, read_note)
    with ledger.snapshot():
        mismatch = walk.first_mismatch()
    return VerificationReport(
        entries=walk.frontier.size,
        checkpoints=walk.checkpoints,
        blobs=len(walk.fitting),
        pruned=tuple(walk.pruned),
        root=Digest(walk.frontier.root.hex()),
        mismatch=mismatch,
    )


class _Walk:
    """One pass over a ledger; each check raises `LedgerCorruptError` at what does not fit."""

    def __init__(
        self,
        ledger: LedgerReader,
        blobs: Blobs,
        progress: Callable[[int], None] | None,
        read_note: ReadNote | None,
    ) -> None:
        self.ledger = ledger
        self.blobs = blobs
        self.progress = progress
        self.read_note = read_note
        self.frontier = Frontier()
        self.checkpoints = 0
        self.covered = 0
        self.fitting: set[Digest] = set()
        # A dict keeps the order of the entries.
        self.pruned: dict[Digest, None] = {}

    def first_mismatch(self) -> Mismatch | None:
        try:
            self._walk()
            return self.ledger.projections.first_difference(self.ledger.db, self.ledger.entries())
        except LedgerCorruptError as error:
            return error.mismatch

    def _walk(self) -> None:
        checkpoints = self.ledger.checkpoints()
        due = next(checkpoints, None)
        for entry in self._entries():
            self._check_blobs(entry)
            self.frontier = self.frontier.grown([entry.leaf_hash])
            if due is not None and due.size == self.frontier.size:
                self._check_root(due)
                due = next(checkpoints, None)
            if self.progress is not None:
                self.progress(self.frontier.size)
        self._check_end(due)
        self._check_nodes()

    def _entries(self) -> Iterator[Entry]:
        for row in self.ledger.rows(_BEFORE_ALL):
            self._check_index(row)
            yield Entry.from_row(row)

    def _check_index(self, row: Sequence[Any]) -> None:
        expected = self.frontier.size
        if row[0] != expected:
            place = f"entry {expected}"
            _fail(Mismatch(place, "index", str(expected), f"{row[0]} next", expected))

    def _check_blobs(self, entry: Entry) -> None:
        for digest in entry.blobs:
            if digest not in self.fitting and digest not in self.pruned:
                self._check_blob(entry, digest)

    def _check_blob(self, entry: Entry, digest: Digest) -> None:
        try:
            self.blobs.check(digest)
        except BlobPrunedError:
            self.pruned[digest] = None
        except BlobCorruptError as error:
            _fail(_blob_mismatch(entry, digest, f"bytes with the digest {error.found}"))
        except BlobMissingError:
            _fail(_blob_mismatch(entry, digest, "nothing"))
        except BlobError as error:
            _fail(_blob_mismatch(entry, digest, str(error)))
        else:
            self.fitting.add(digest)

    def _check_root(self, checkpoint: StoredCheckpoint) -> None:
        found = Digest(self.frontier.root.hex())
        if found != checkpoint.root:
            place = (
                f"checkpoint of size {checkpoint.size}"
                f" (entries {self.covered} to {checkpoint.size - 1}, or their order)"
            )
            _fail(Mismatch(place, "root", f"{found} by the entries", checkpoint.root, self.covered))
        self._check_note(checkpoint)
        self.checkpoints += 1
        self.covered = checkpoint.size

    def _check_note(self, checkpoint: StoredCheckpoint) -> None:
        if self.read_note is None or checkpoint.note is None:
            return
        place = f"checkpoint of size {checkpoint.size}"
        try:
            signed = self.read_note(checkpoint.note)
        except SignatureError as error:
            _fail(Mismatch(place, "note", "signed by this coordinator", str(error), self.covered))
        if signed != (checkpoint.size, checkpoint.root):
            found = f"one of size {signed[0]}, root {signed[1]}"
            expected = f"one of size {checkpoint.size}, root {checkpoint.root}"
            _fail(Mismatch(place, "note", expected, found, self.covered))

    def _check_end(self, due: StoredCheckpoint | None) -> None:
        size = self.frontier.size
        if due is not None:
            place = f"checkpoint of size {due.size}"
            _fail(Mismatch(place, "number of entries", str(due.size), str(size), size))
        if self.covered != size:
            place = f"entry {self.covered}"
            found = f"none for entries {self.covered} to {size - 1}"
            _fail(Mismatch(place, "checkpoint", f"one of size {size}", found, self.covered))

    def _check_nodes(self) -> None:
        """Hold the stored nodes against the leaves: a proof made of wrong ones would not hold."""
        wrong = self.ledger.wrong_node()
        if wrong is not None:
            _fail(wrong)


def _blob_mismatch(entry: Entry, digest: Digest, found: str) -> Mismatch:
    place = f"entry {entry.index}"
    return Mismatch(place, f"blob {digest}", "held whole", found, entry.index, entry.kind)


def _fail(mismatch: Mismatch) -> None:
    raise LedgerCorruptError(mismatch)
