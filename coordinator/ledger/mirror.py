"""Following a ledger into an object store, so that there is a copy of it elsewhere.

    checkpoint, tile/, entries/    as `tiles` lays out an export: `ledger audit` reads a mirror too
    blobs/<2 digits>/<digest>      every blob that an entry names and that was held when it was seen
    pruned/<2 digits>/<digest>     the size of a blob that retention had deleted before that, as an
                                   entry says

The rules:

- blobs come first, then the tiles, then the checkpoint: whatever the moment at which this ends,
  what lies there restores to the checkpoint that lies there;
- an object is put where none is, and left where it is. Only the checkpoint is replaced, by one that
  has more entries and begins with all that the former one had;
- what lies beyond the checkpoint is held against what belongs there: a torn object is put again, of
  another history nothing is written;
- partial tiles go when the full one is there and signed, as tlog-tiles allows;
- what is there says where to go on; nothing is remembered here.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleetledger.coordinator import errors
from fleetledger.coordinator.ledger.audit import note_at
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore, checked
from fleetledger.coordinator.ledger.deletions import SaysPruned, unexplained
from fleetledger.coordinator.ledger.objects import Objects, objects_at
from fleetledger.coordinator.ledger.ranges import ReadNote
from fleetledger.coordinator.ledger.reader import LedgerReader, StoredCheckpoint
from fleetledger.coordinator.ledger.tiles import CHECKPOINT, outgrown, tiles_between
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.values import Digest

STEP_ENTRIES = 1 << 14
"""Entries after which a checkpoint is looked for to be moved to: so much is done twice at most."""
WORKERS = 16
"""Blobs on their way at once: an object store takes many, and each takes its time."""


@dataclass(frozen=True)
class Advanced:
    """What one step brought to the mirror."""

    size: int
    """Entries of its checkpoint from now on."""
    root: Digest
    entries: int
    blobs: int
    bytes: int
    """Of tiles, and of blobs that were not there."""

    def __str__(self) -> str:
        """Return one sentence for the operator."""
        return (
            f"{count_of(self.size, 'entry', 'entries')} {agree(self.size, 'is', 'are')} "
            f"mirrored, {self.entries} of them and "
            f"{count_of(self.blobs, 'blob')} new "
            f"({self.bytes} bytes); root {self.root}"
        )


class Mirror:
    """A mirror at a folder or URL; `read_note` reads notes of this ledger's coordinator."""

    def __init__(
        self,
        location: str | Path,
        read_note: ReadNote,
        prunings: Callable[[], SaysPruned],
        *,
        workers: int = WORKERS,
    ) -> None:
        """Open the place; nothing is written yet. Raises `BlobError`.

        `prunings` gives what follows the entries about deleted blobs.
        """
        self.objects = objects_at(location)
        self.blobs = mirrored_blobs(location)
        self._read_note = read_note
        self._prunings = prunings
        self._workers = workers
        self.size: int | None = None
        """Entries that lie there; None where that was not seen yet."""

    def steps(self, ledger: LedgerReader, blobs: Blobs) -> Iterator[Advanced]:
        """Bring the mirror to the newest signed checkpoint; yield what each step has done.

        Raises `AuditError` for a mirror of another history, of another ledger, or with more entries
        than this ledger has; `BlobError` where the other side refuses, or a blob is missing here;
        `LedgerError` for a ledger that cannot be read or does not fit.
        """
        self.size = there = self._size_there(ledger)
        while (newest := _next(ledger, there)) is not None:
            step = self._step(ledger, blobs, there, newest)
            self.size = there = newest.size
            yield step

    def _step(
        self, ledger: LedgerReader, blobs: Blobs, there: int, newest: StoredCheckpoint
    ) -> Advanced:
        named = _named_blobs(ledger, there, newest)
        unkept = ledger.runs.unkept_between(there, newest.size)
        self._check_deleted(ledger, named, unkept, there)
        copied = list(_side_by_side(self._workers, self._copies(ledger, blobs, named, unkept)))
        total = sum(copied)
        for name, data in tiles_between(ledger, there, newest.size):
            total += _put(self.objects, name, data)
        assert newest.note is not None  # `_next` gives signed ones
        if self._size_there(ledger) != there:
            raise errors.AuditError(
                f"{self.objects.place(CHECKPOINT)}: another program moves it as well; let one "
                "mirror this ledger there"
            )
        self.objects.write(CHECKPOINT, newest.note.encode())
        for folder in outgrown(there, newest.size):
            self.objects.clear(folder)
        new = sum(size > 0 for size in copied)
        return Advanced(newest.size, newest.root, newest.size - there, new, total)

    def _check_deleted(
        self,
        ledger: LedgerReader,
        named: Iterable[Digest],
        unkept: Mapping[str, int],
        there: int,
    ) -> None:
        """Raise `BlobMissingError` for a blob marked as deleted that no entry says to be."""
        rows = ((digest, ledger.blob(digest)) for digest in named)
        marked = {
            digest for digest, row in rows if (digest in unkept if row is None else row.pruned)
        }
        lost = unexplained(ledger, marked, self._prunings(), there)
        if lost is not None:
            raise errors.BlobMissingError(
                f"blob {lost}: is marked as deleted, and no entry of the ledger says so; put it "
                "back from a copy, then mirror"
            )

    def _size_there(self, ledger: LedgerReader) -> int:
        """Return how many entries the mirror has signed; raise `AuditError` if not of this log."""
        place = self.objects.place(CHECKPOINT)
        if self.objects.read(CHECKPOINT, 1) is None:
            return 0
        try:
            signed = self._read_note(note_at(self.objects))
        except SignatureError as error:
            raise errors.AuditError(f"{place}: {error}; mirror to another place") from error
        if signed.size > ledger.size:
            raise errors.AuditError(
                f"{place}: has {count_of(signed.size, 'entry', 'entries')}, and the ledger here "
                f"{ledger.size}: it is the "
                "older of the two; `fleetledger ledger restore URL` brings the newer one back"
            )
        found = ledger.root_at(signed.size)
        if found != signed.root:
            raise errors.AuditError(
                f"{place}: has the root {signed.root} over "
                f"{count_of(signed.size, 'entry', 'entries')}, and the ledger here "
                f"{found}: there are two histories; mirror this one to another place"
            )
        return signed.size

    def _copies(
        self,
        ledger: LedgerReader,
        blobs: Blobs,
        digests: Iterable[Digest],
        unkept: Mapping[str, int],
    ) -> Iterator[Callable[[], int]]:
        """Yield what brings each blob there; only what reads the database is done here."""
        for digest in digests:
            row = ledger.blob(digest)
            if row is not None and row.pruned:
                yield partial(self._mark_pruned, digest, row.size)
            elif row is not None and row.content is not None:
                yield partial(self._copy, digest, row.size, [row.content])
            elif row is None and digest in unkept:
                yield partial(self._mark_pruned, digest, unkept[digest])
            else:
                yield partial(self._copy_large, digest, blobs.store)

    def _copy_large(self, digest: Digest, store: BlobStore) -> int:
        size = store.size(digest)
        if size is None:
            raise errors.BlobMissingError(
                f"blob {digest}: is missing here, and the mirror would not restore without it; "
                "restore it, then go on"
            )
        return self._copy(digest, size, store.place.parts(digest))

    def _copy(self, digest: Digest, size: int, parts: Iterable[bytes]) -> int:
        """Put a blob unless one of its size is there; return the bytes that were put."""
        if self.blobs.size(digest) == size:
            return 0
        self.blobs.place.write(digest, checked(digest, parts))
        return size

    def _mark_pruned(self, digest: Digest, size: int) -> int:
        if self.blobs.size(digest) is None:
            self.objects.write(pruned_mark(digest), f"{size}\n".encode())
        return 0


def _put(objects: Objects, name: str, data: bytes) -> int:
    """Put an object unless it is there; return the bytes that were put."""
    there = objects.read(name, len(data) + 1)
    if there == data:
        return 0
    if there is not None and not data.startswith(there):
        raise errors.AuditError(
            f"{objects.place(name)}: is of another history, which is not signed there; "
            "mirror to another place"
        )
    objects.write(name, data)
    return len(data)


def mirrored_blobs(location: str | Path) -> BlobStore:
    """Return the blobs of the mirror at a location."""
    return BlobStore(f"{str(location).rstrip('/')}/blobs")


def pruned_mark(digest: Digest) -> str:
    """Return the name of the object that says that a blob was deleted on purpose."""
    return f"pruned/{digest[:2]}/{digest}"


def _next(ledger: LedgerReader, there: int) -> StoredCheckpoint | None:
    """Return the signed checkpoint of the next step; None where the mirror has all there is."""
    newest = ledger.signed_checkpoint(there, there + STEP_ENTRIES)
    return newest or ledger.signed_checkpoint(there, None)


def _named_blobs(ledger: LedgerReader, there: int, newest: StoredCheckpoint) -> tuple[Digest, ...]:
    """Return the blobs that new entries name, once these have proven to give the signed root."""
    leaves, named = [], dict[Digest, None]()
    for *_, blobs, leaf in ledger.rows(there, newest.size):
        leaves.append(leaf)
        if blobs != "[]":
            named.update(dict.fromkeys(map(Digest, json.loads(blobs))))
    found = ledger.tree.frontier(there).grown(leaves).root.hex()
    if found != newest.root:
        place = f"checkpoint of size {newest.size}"
        raise errors.LedgerCorruptError(
            errors.Mismatch(place, "root", f"{found} by the entries", newest.root, there)
        )
    return tuple(named)


def _side_by_side(workers: int, tasks: Iterable[Callable[[], int]]) -> Iterator[int]:
    """Yield what tasks return, in their order; with one worker in this thread."""
    if workers == 1:
        yield from (task() for task in tasks)
        return
    waiting = deque[Future[int]]()
    with ThreadPoolExecutor(workers, thread_name_prefix="mirror") as pool:
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
