"""A range of entries looked at by itself: what it says of them, and what joins it to the rest.

Ranges begin at multiples of `RANGE`: the root of a whole one is a stored node.
Of a checkpoint in it a range tells the root of its own entries up to there; whoever joins ranges
knows what comes before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fleetledger.coordinator import errors
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.nodes import STRIDE
from fleetledger.coordinator.ledger.reader import LedgerReader, StoredCheckpoint
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.proofs.tree import Frontier, node_hash
from fleetledger.schemas.values import Digest

RANGE_LEVEL = 3 * STRIDE
RANGE = 1 << RANGE_LEVEL
"""Entries of a whole range."""

ReadNote = Callable[[str], Checkpoint]
"""Returns the checkpoint of a signed note; raises `SignatureError`."""

_BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class RangeCheckpoint:
    """A checkpoint, and the root of the entries of its range up to its size."""

    size: int
    root: Digest
    within: Digest
    note: tuple[str, str] | None
    """What its signed note should be, and what it is; None where nothing is wrong with it."""


@dataclass(frozen=True)
class RangeWalk:
    """What a range says of itself, as far as its entries fit."""

    start: int
    size: int
    """Entries that fit, from the first one on."""
    peaks: tuple[Digest, ...]
    """Roots of the complete subtrees over them, large first; of a whole range one."""
    checkpoints: tuple[RangeCheckpoint, ...]
    fitting: tuple[Digest, ...]
    """Blobs that its entries name and that fit, each once."""
    pruned: tuple[Digest, ...]
    """Blobs that were deleted on purpose, in the order of the entries."""
    nodes_fit: bool
    """Whether the stored nodes of the tree over whole parts of it follow from its entries."""
    mismatch: errors.Mismatch | None
    """The first entry or blob that does not fit; what comes after was not looked at."""


def ranges(size: int) -> Iterator[tuple[int, int]]:
    """Yield where each range of a ledger of so many entries begins and ends; one at least."""
    for start in range(0, max(size, 1), RANGE):
        yield start, min(start + RANGE, size)


def walk_range(
    ledger: LedgerReader, blobs: Blobs, start: int, stop: int, read_note: ReadNote | None = None
) -> RangeWalk:
    """Look at the entries from `start` on, before `stop`; never raises for a mismatch."""
    walk = _Walk(ledger, blobs, start)
    mismatch = walk.first_mismatch(stop)
    edge, checkpoints, nodes_fit = Frontier().grown(walk.leaves), list[RangeCheckpoint](), True
    try:
        checkpoints.extend(_checkpoints(ledger, start, walk.leaves, read_note))
        nodes_fit = mismatch is not None or _nodes_fit(ledger, start, walk.leaves)
    except errors.LedgerCorruptError as error:
        mismatch = mismatch or error.mismatch
    return RangeWalk(
        start=start,
        size=len(walk.leaves),
        peaks=tuple(Digest(peak.hex()) for peak in edge.peaks),
        checkpoints=tuple(checkpoints),
        fitting=tuple(walk.fitting),
        pruned=tuple(walk.pruned),
        nodes_fit=nodes_fit,
        mismatch=mismatch,
    )


class _Walk:
    """One pass over the entries of a range; checks raise `LedgerCorruptError`."""

    def __init__(self, ledger: LedgerReader, blobs: Blobs, start: int) -> None:
        self._ledger = ledger
        self._blobs = blobs
        self._start = start
        self.leaves: list[bytes] = []
        # Dicts keep the order of the entries.
        self.fitting: dict[Digest, None] = {}
        self.pruned: dict[Digest, None] = {}

    def first_mismatch(self, stop: int) -> errors.Mismatch | None:
        try:
            for row in self._ledger.rows(self._start or _BEFORE_ALL, stop):
                self._check_index(row[0])
                entry = Entry.from_row(row)
                for digest in entry.blobs:
                    if digest not in self.fitting and digest not in self.pruned:
                        self._check_blob(entry, digest)
                self.leaves.append(entry.leaf_hash)
            if self._next < stop:
                self._check_index(next(self._ledger.rows(self._next))[0])
        except errors.LedgerCorruptError as error:
            return error.mismatch
        return None

    @property
    def _next(self) -> int:
        return self._start + len(self.leaves)

    def _check_index(self, found: int) -> None:
        expected = self._next
        if found != expected:
            place = f"entry {expected}"
            fail(errors.Mismatch(place, "index", str(expected), f"{found} next", expected))

    def _check_blob(self, entry: Entry, digest: Digest) -> None:
        try:
            self._blobs.check(digest)
        except errors.BlobPrunedError:
            self.pruned[digest] = None
        except errors.BlobCorruptError as error:
            fail(_blob_mismatch(entry, digest, f"bytes with the digest {error.found}"))
        except errors.BlobMissingError:
            fail(_blob_mismatch(entry, digest, "nothing"))
        except errors.BlobError as error:
            fail(_blob_mismatch(entry, digest, str(error)))
        else:
            self.fitting[digest] = None


def fail(mismatch: errors.Mismatch) -> None:
    """End a walk with what does not fit."""
    raise errors.LedgerCorruptError(mismatch)


def _blob_mismatch(entry: Entry, digest: Digest, found: str) -> errors.Mismatch:
    place = f"entry {entry.index}"
    return errors.Mismatch(place, f"blob {digest}", "held whole", found, entry.index, entry.kind)


def _checkpoints(
    ledger: LedgerReader, start: int, leaves: Sequence[bytes], read_note: ReadNote | None
) -> Iterator[RangeCheckpoint]:
    edge = Frontier()
    for stored in ledger.checkpoints(start, start + len(leaves)):
        edge = edge.grown(leaves[edge.size : stored.size - start])
        within, wrong = Digest(edge.root.hex()), _wrong_note(stored, read_note)
        yield RangeCheckpoint(stored.size, stored.root, within, wrong)


def _wrong_note(stored: StoredCheckpoint, read_note: ReadNote | None) -> tuple[str, str] | None:
    if read_note is None or stored.note is None:
        return None
    try:
        signed = read_note(stored.note)
    except SignatureError as error:
        return "signed by this coordinator", str(error)
    expected, found = (f"one of size {one.size}, root {one.root}" for one in (stored, signed))
    return None if found == expected else (expected, found)


def _nodes_fit(ledger: LedgerReader, start: int, hashes: Sequence[bytes]) -> bool:
    """Hold the stored nodes over whole parts of a range against its leaves."""
    for level in range(1, RANGE_LEVEL + 1):
        pairs = zip(hashes[::2], hashes[1::2], strict=False)  # a last one alone has no node
        hashes = [node_hash(left, right) for left, right in pairs]
        if level % STRIDE == 0:
            first = start >> level
            if ledger.nodes(level, first, first + len(hashes)) != list(hashes):
                return False
    return True
