"""The one writer of the ledger: a group of entries is committed whole, or leaves nothing.

- One transaction holds the group's entries, the checkpoint after it and its small blobs. WAL with
  `synchronous=FULL`: when `append` returns, it is on the disk.
- Whatever fails (a full disk, a busy database), the transaction is rolled back and the tree in
  memory is still the one on the disk.
- One process writes (a lock file beside the database), from one thread.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path

from fleetledger.coordinator import errors
from fleetledger.coordinator.ledger import schema
from fleetledger.coordinator.ledger.entries import COLUMNS, Entry, EntryDraft
from fleetledger.coordinator.ledger.folder_store import fsync_folder, make_folder
from fleetledger.coordinator.ledger.lock import WriterLock, lock_path
from fleetledger.coordinator.ledger.nodes import INSERT_NODE
from fleetledger.coordinator.ledger.reader import LedgerReader, StoredCheckpoint, connect
from fleetledger.coordinator.ledger.runs import RUN_COLUMNS, EntryRun, StoredRun
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.problems import HELD
from fleetledger.schemas.proofs.tree import HASH_BYTES, Frontier
from fleetledger.schemas.values import Digest

SMALL_BLOB_BYTES = 1 << 16
"""Blobs up to this size live inside the database, committed with the entries that name them."""

_LOGGED_PAGES = 4096
"""Pages (16 MiB) in the write-ahead log before SQLite moves them into the database.

1,000 answers of a round write 350 pages of a young ledger and over 1,000 of an old one, many of
them the same as in the round before; by default they would be moved with nearly every round.
"""

SignNote = Callable[[int, Digest], str | None]
"""Given size and root, returns the signed note of that checkpoint, if it has one."""


class Ledger(LedgerReader):
    """The ledger, open for appending; make it with `Ledger.open`."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        lock: WriterLock,
        clock: Callable[[], int],
        sign_note: SignNote | None = None,
    ) -> None:
        super().__init__(db, path)
        self._lock = lock
        self._clock = clock
        self._sign_note = sign_note
        self._newest = super().checkpoint
        self._appended: dict[int, Entry] = {}
        """The entries of the last group, which receipts prove as soon as they are committed."""
        self._frontier = self._load_frontier()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], int] = time.time_ns,
        busy_seconds: float = 5.0,
        sign_note: SignNote | None = None,
    ) -> Ledger:
        """Open the ledger at `path`, making it where there is none, and become its writer.

        With `sign_note` every checkpoint from now on is signed. `clock` gives nanoseconds since
        1970 for checkpoints and for drafts without a time. Of the tree its right edge is read;
        whether the entries before it still are what they were is left to `verify`. Raises
        `LedgerLockedError` while another process writes, `LedgerCorruptError` where neither nodes
        nor entries give the root of the newest checkpoint, `LedgerError` where the file is no
        ledger of this program.
        """
        make_folder(path.parent)
        lock = WriterLock(lock_path(path))
        try:
            db = _open_database(path, busy_seconds)
            return cls(db, path, lock, clock, sign_note)
        except sqlite3.Error as error:
            lock.release()
            raise errors.LedgerError(f"{path}: cannot be opened as a ledger: {error}") from error
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Close the database and let another process write."""
        super().close()
        self._lock.release()

    @property
    def size(self) -> int:
        """Number of entries; the index of the next one."""
        return self._frontier.size

    @property
    def root(self) -> Digest:
        """Root over the entries."""
        return Digest(self._frontier.root.hex())

    @property
    def checkpoint(self) -> StoredCheckpoint | None:
        """The newest checkpoint; None in an empty ledger."""
        return self._newest

    def entry(self, index: int) -> Entry:
        """Return one entry; raise `LedgerError` if there is no such index."""
        return self._appended.get(index) or super().entry(index)

    def text(self, index: int) -> str:
        """Return the bytes of an entry as text; raise `LedgerError` if there is no such index.

        What was just committed, and is proven with its receipt, is read from memory.
        """
        newest = self._appended.get(index)
        text = self.runs.kept_text(index) if newest is None else newest.canonical.decode()
        return super().text(index) if text is None else text

    def append(
        self,
        group: Sequence[EntryDraft | Entry | EntryRun],
        small_blobs: Mapping[Digest, bytes] | None = None,
        pruned: Mapping[Digest, int] | None = None,
    ) -> tuple[Entry, ...]:
        """Commit a group and its small blobs; return the entries of drafts with their indices.

        `pruned` are blobs that the entries name and that were not kept, with their sizes.

        An `EntryDraft` gets the next index, an `EntryRun` as many as it has entries; an `Entry`
        must carry it. Blobs above `SMALL_BLOB_BYTES` belong into the blob store, before this call.
        An empty group commits nothing. Raises `EntryError` or `BlobError` for what may not be
        written, `LedgerWriteError` when the database refuses; nothing of the group is stored then.
        """
        if not group:
            return ()
        now_ns, old_size, pruned = self._clock(), self.size, pruned or {}
        written = list(self._numbered(group, now_ns, pruned))
        noted = {
            digest for item in written if isinstance(item, StoredRun) for digest in item.unkept
        }
        blobs = [_blob_row(digest, content) for digest, content in (small_blobs or {}).items()]
        leaves = list(chain.from_iterable(map(_leaves, written)))
        frontier = self._frontier.grown(leaves)
        newest = self._checkpoint_of(frontier, now_ns)
        checkpoint = (newest.size, frontier.root, now_ns, newest.note)
        with self._transaction(f"{count_of(len(leaves), 'entry', 'entries')}"):
            self.db.executemany(_INSERT_BLOB, blobs)
            for kind, items in groupby(written, type):
                insert = _INSERT_ENTRY if kind is Entry else _INSERT_RUN
                self.db.executemany(insert, [item.to_row() for item in items])
            self.db.execute(_INSERT_CHECKPOINT, checkpoint)
            self.tree.keep(old_size, leaves)
            self.db.executemany(INSERT_NODE, self.tree.missing(old_size, frontier.size))
            marks = [one for one in pruned.items() if one[0] not in noted]
            self.db.executemany(_MARK_PRUNED, marks)
        self._frontier, self._newest = frontier, newest
        for item in written:
            if isinstance(item, StoredRun):
                self.runs.keep(item)
        entries = tuple(item for item in written if isinstance(item, Entry))
        self._appended = {entry.index: entry for entry in entries}
        return entries

    def mark_pruned(self, sizes: Mapping[Digest, int]) -> None:
        """Record that blobs of these sizes were deleted on purpose; drop content that is inline."""
        with self._transaction("pruned blobs"):
            self.db.executemany(_MARK_PRUNED, sizes.items())

    def _checkpoint_of(self, frontier: Frontier, now_ns: int) -> StoredCheckpoint:
        size, root = frontier.size, Digest.known(frontier.root.hex())
        note = None if self._sign_note is None else self._sign_note(size, root)
        return StoredCheckpoint(size, root, now_ns, note)

    def _numbered(
        self,
        group: Sequence[EntryDraft | Entry | EntryRun],
        now_ns: int,
        pruned: Mapping[Digest, int],
    ) -> Iterator[Entry | StoredRun]:
        """Yield what becomes a row each."""
        index = self.size
        for item in group:
            if isinstance(item, EntryRun):
                yield from item.rows(index, pruned)
                index += len(item)
            else:
                yield _numbered(item, index, now_ns)
                index += 1

    @contextmanager
    def _transaction(self, what: str) -> Iterator[None]:
        """Commit what happens inside, or nothing; SQLite's errors become `LedgerWriteError`."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            self.db.execute("COMMIT")
        except (sqlite3.ProgrammingError, errors.LedgerCorruptError):
            self._undo()
            raise  # used from another thread, or a damaged file
        except (
            sqlite3.Error,
            errors.LedgerError,
        ) as error:  # also reading writes, where memory is short
            self._undo()
            cause = HELD if "locked" in str(error) else str(error)
            raise errors.LedgerWriteError(
                f"{self.path}: {what} not stored: {cause}; nothing was changed, "
                "so mend the cause (free space, other programs) and try again"
            ) from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        self.db.rollback()
        self.tree.forget()

    def _load_frontier(self) -> Frontier:
        """Return the tree's right edge, which must have the newest checkpoint's root.

        It is made of the stored nodes; where these do not give that root, of the leaves.
        """
        checkpoint = self.checkpoint
        expected = (checkpoint.size, checkpoint.root) if checkpoint else (0, super().root)
        for edge in (self._edge_by_nodes, self._edge_by_leaves):
            frontier = edge()
            found = (frontier.size, Digest(frontier.root.hex()))
            if expected == found:
                return frontier
        mismatch = errors.Mismatch(
            "newest checkpoint",
            "size and root",
            f"{found[0]}, {found[1]} by the entries",
            f"{expected[0]}, {expected[1]}",
        )
        raise errors.LedgerCorruptError(mismatch)

    def _edge_by_nodes(self) -> Frontier:
        try:
            return self.tree.frontier(super().size)
        except LookupError:
            return Frontier()  # not whole

    def _edge_by_leaves(self) -> Frontier:
        return Frontier().grown(row[-1] for row in self.rows())


_INSERT_ENTRY = (
    f"INSERT INTO entry ({', '.join(COLUMNS)})"  # noqa: S608 - a constant
    f" VALUES ({', '.join('?' for _ in COLUMNS)})"
)
_INSERT_RUN = (
    f"INSERT INTO run ({', '.join(RUN_COLUMNS)})"  # noqa: S608 - a constant
    f" VALUES ({', '.join('?' for _ in RUN_COLUMNS)})"
)
_INSERT_CHECKPOINT = "INSERT INTO checkpoint (size, root, time_ns, note) VALUES (?, ?, ?, ?)"
_INSERT_BLOB = f"""INSERT INTO blob (digest, size, state, content)
    VALUES (?, ?, '{schema.INLINE}', ?)
    ON CONFLICT (digest) DO UPDATE SET
        size = excluded.size, state = excluded.state, content = excluded.content"""  # noqa: S608 - a constant
_MARK_PRUNED = f"""INSERT INTO blob (digest, size, state) VALUES (?, ?, '{schema.PRUNED}')
    ON CONFLICT (digest) DO UPDATE SET
        size = excluded.size, state = excluded.state, content = NULL"""  # noqa: S608 - a constant


def _open_database(path: Path, busy_seconds: float) -> sqlite3.Connection:
    db = connect(path, writing=True, busy_seconds=busy_seconds)
    mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise errors.LedgerError(
            f"{path}: its file system has no write-ahead log; use a local disk"
        )
    db.execute("PRAGMA synchronous=FULL")
    db.execute(f"PRAGMA wal_autocheckpoint={_LOGGED_PAGES}")
    schema.make_tables(db, path)
    fsync_folder(path.parent)
    return db


def _leaves(item: Entry | StoredRun) -> list[bytes]:
    if isinstance(item, Entry):
        return [item.leaf_hash]
    return [item.leaves[n : n + HASH_BYTES] for n in range(0, len(item.leaves), HASH_BYTES)]


def _numbered(item: EntryDraft | Entry, index: int, now_ns: int) -> Entry:
    if isinstance(item, EntryDraft):
        return Entry.from_draft(item, index, now_ns)
    if item.index != index:
        raise errors.EntryError(f"index: {item.index} is not allowed; the next entry is {index}")
    return item


def _blob_row(digest: Digest, content: bytes) -> tuple[Digest, int, bytes]:
    if len(content) > SMALL_BLOB_BYTES:
        raise errors.BlobError(
            f"blob {digest.short}: {len(content)} bytes are too many inside the ledger; "
            f"put what is above {SMALL_BLOB_BYTES} bytes into the blob store"
        )
    found = Digest.of(content)
    if found != digest:
        raise errors.BlobError(
            f"blob {digest.short}: its bytes have the digest {found.short}; send both anew"
        )
    return digest, len(content), content
