"""Walk the whole ledger and name the first thing that does not fit.

In the order of the entries:

- indices count from 0 without a gap;
- every row is the canonical form of its entry, and its leaf is the hash of the entry's bytes;
- every blob that an entry names is held and has its digest (a pruned one is listed, and a fault
  only where no entry says that it was deleted);
- every checkpoint's root follows from the leaves before it, and the newest covers all entries;
- signed notes are this coordinator's, and of their checkpoint;
- the stored nodes of the tree follow from the leaves;

Entries are walked in ranges, by whoever and in whichever order; `joined` takes them one after the
other, so that what is named first is the first also where several processes walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from fleetledger.coordinator.errors import LedgerCorruptError, Mismatch
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.deletions import SaysPruned, unexplained
from fleetledger.coordinator.ledger.nodes import STRIDE
from fleetledger.coordinator.ledger.ranges import (
    RANGE,
    RANGE_LEVEL,
    RangeCheckpoint,
    RangeWalk,
    ReadNote,
    fail,
    ranges,
    walk_range,
)
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.proofs.tree import EMPTY_ROOT, Frontier, node_hash
from fleetledger.schemas.values import Digest


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
    snapshots: int = 0
    """Kept states that are what the entries give."""

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return self.mismatch is None

    def __str__(self) -> str:
        """Return one sentence for the operator."""
        if self.mismatch is not None:
            return str(self.mismatch)
        pruned = f", {len(self.pruned)} pruned" if self.pruned else ""
        kept = f", {self.snapshots} kept states are what they give" if self.snapshots else ""
        return (
            f"{count_of(self.entries, 'entry', 'entries')}, "
            f"{count_of(self.checkpoints, 'checkpoint')} and {count_of(self.blobs, 'blob')} fit"
            f"{pruned}{kept}; root {self.root}"
        )


def verify(
    ledger: LedgerReader,
    blobs: Blobs,
    progress: Callable[[int], None] | None = None,
    read_note: ReadNote | None = None,
    prunings: SaysPruned | None = None,
) -> VerificationReport:
    """Check one state of the ledger, also while its writer goes on; never raises for a mismatch.

    With `read_note` the signed notes of checkpoints are checked too, and with `prunings` what the
    entries say of blobs that are marked as deleted. `progress` is called with the
    number of entries walked. The cost is that of reading everything once: entries and blobs.
    """

    def walks() -> Iterator[RangeWalk]:
        for start, stop in ranges(ledger.size):
            yield walk_range(ledger, blobs, start, stop, read_note)

    with ledger.snapshot():
        return joined(ledger, walks(), progress, prunings=prunings)


def joined(
    ledger: LedgerReader,
    walks: Iterable[RangeWalk],
    progress: Callable[[int], None] | None,
    other: Callable[[], Mismatch | None] | None = None,
    prunings: SaysPruned | None = None,
) -> VerificationReport:
    """Return what ranges say together, and where all is well the mismatch of `other`.

    The walks come in the order of the entries; those behind one that does not fit are not asked
    for. The caller holds a snapshot of the ledger.
    """
    whole = _Whole(ledger)
    mismatch = whole.first_mismatch(walks, progress)
    try:
        if prunings is not None:
            mismatch = mismatch or _not_said(ledger, whole.pruned, prunings)
        if other is not None:
            mismatch = mismatch or other()
    except LedgerCorruptError as error:
        mismatch = error.mismatch
    return VerificationReport(
        entries=whole.size,
        checkpoints=whole.checkpoints,
        blobs=len(whole.fitting),
        pruned=tuple(whole.pruned),
        root=whole.root,
        mismatch=mismatch,
    )


def _not_said(
    ledger: LedgerReader, pruned: Collection[Digest], prunings: SaysPruned
) -> Mismatch | None:
    lost = unexplained(ledger, pruned, prunings)
    if lost is None:
        return None
    named = next(entry for entry in ledger.entries() if lost in entry.blobs)
    expected = "held, or deleted by an entry"
    found = "marked as deleted, and no entry says so"
    return Mismatch(
        f"entry {named.index}", f"blob {lost}", expected, found, named.index, named.kind
    )


class _Whole:
    """The ranges so far; each check raises `LedgerCorruptError` at what does not fit."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._roots: list[bytes] = []
        """Roots of the whole ranges, which are nodes of one level."""
        self._nodes_fit = True
        self._covered = 0
        self._checks = True
        """Whether checkpoints are met: one of no entries is met by nobody, nor any behind it."""
        self._edge = Frontier()
        """Right edge of the tree over the whole ranges."""
        self.size = 0
        self.root = Digest(EMPTY_ROOT.hex())
        self.checkpoints = 0
        self.fitting: set[Digest] = set()
        # A dict keeps the order of the entries.
        self.pruned: dict[Digest, None] = {}

    def first_mismatch(
        self, walks: Iterable[RangeWalk], progress: Callable[[int], None] | None
    ) -> Mismatch | None:
        try:
            self._checks = _first_size(self._ledger) != 0
            for walk in walks:
                self._take(walk)
                if progress is not None and walk.size:
                    progress(self.size)
            self._check_end()
            self._check_nodes()
        except LedgerCorruptError as error:
            return error.mismatch
        return None

    def _take(self, walk: RangeWalk) -> None:
        self.fitting.update(walk.fitting)
        self.pruned.update(dict.fromkeys(walk.pruned))
        for checkpoint in walk.checkpoints if self._checks else ():
            self._see(checkpoint.size, checkpoint.within)
            self._check_root(checkpoint)
        peaks = tuple(bytes.fromhex(peak) for peak in walk.peaks)
        if peaks:
            self._see(walk.start + walk.size, Digest(Frontier(walk.size, peaks).root.hex()))
        if walk.mismatch is not None:
            fail(walk.mismatch)
        if walk.size == RANGE:
            self._roots += peaks
            self._edge = _with_range(self._edge, *peaks)
        self._nodes_fit &= walk.nodes_fit

    def _see(self, size: int, within: Digest) -> None:
        """Note how far the walk is, and the root up to there: of `within`, and what is before."""
        root = bytes.fromhex(within)
        for peak in reversed(self._edge.peaks):
            root = node_hash(peak, root)
        self.size, self.root = size, Digest(root.hex())

    def _check_root(self, checkpoint: RangeCheckpoint) -> None:
        place = f"checkpoint of size {checkpoint.size}"
        if self.root != checkpoint.root:
            which = f"{place} (entries {self._covered} to {checkpoint.size - 1}, or their order)"
            found = f"{self.root} by the entries"
            fail(Mismatch(which, "root", found, checkpoint.root, self._covered))
        if checkpoint.note is not None:
            fail(Mismatch(place, "note", *checkpoint.note, self._covered))
        self.checkpoints += 1
        self._covered = checkpoint.size

    def _check_end(self) -> None:
        size = self.size
        due = next(self._ledger.checkpoints(size if self._checks else -1), None)
        if due is not None:
            place = f"checkpoint of size {due.size}"
            fail(Mismatch(place, "number of entries", str(due.size), str(size), size))
        if self._covered != size:
            place = f"entry {self._covered}"
            found = f"none for entries {self._covered} to {size - 1}"
            fail(Mismatch(place, "checkpoint", f"one of size {size}", found, self._covered))

    def _check_nodes(self) -> None:
        """Hold the stored nodes against the leaves: a proof made of wrong ones would not hold.

        Ranges have looked at those below their roots; which one is wrong is looked for alone where
        one is.
        """
        count = sum(self.size >> n for n in range(STRIDE, self.size.bit_length(), STRIDE))
        upper = self._upper_nodes()
        if not self._nodes_fit or self._ledger.upper_nodes(RANGE_LEVEL) != (count, upper):
            wrong = self._ledger.wrong_node()
            if wrong is not None:
                fail(wrong)

    def _upper_nodes(self) -> dict[tuple[int, int], bytes]:
        """Return the nodes above ranges that there should be, by level and position."""
        upper, hashes = dict[tuple[int, int], bytes](), self._roots
        for level in range(RANGE_LEVEL + 1, self.size.bit_length()):
            pairs = zip(hashes[::2], hashes[1::2], strict=False)  # a last one alone has no node
            hashes = [node_hash(left, right) for left, right in pairs]
            if level % STRIDE == 0:
                upper |= {(level, place): found for place, found in enumerate(hashes)}
        return upper


def _first_size(ledger: LedgerReader) -> int | None:
    first = next(ledger.checkpoints(), None)
    return None if first is None else first.size


def _with_range(edge: Frontier, root: bytes) -> Frontier:
    """Return the right edge after one more whole range, whose root it is."""
    counted = Frontier(edge.size >> RANGE_LEVEL, edge.peaks).grown([root])
    return Frontier(counted.size << RANGE_LEVEL, counted.peaks)
