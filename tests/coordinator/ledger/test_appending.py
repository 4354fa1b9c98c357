"""A group is committed whole, with checkpoint and blobs, or leaves nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlite_utils import Database

from fleetledger.coordinator.errors import (
    BlobError,
    EntryError,
    LedgerCorruptError,
    LedgerError,
    LedgerLockedError,
    LedgerWriteError,
)
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES, Ledger
from fleetledger.schemas.proofs.tree import EMPTY_ROOT, Frontier
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import draft, fill, tampering


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def state(ledger: Ledger) -> tuple[object, ...]:
    """Everything a failed append must leave as it was, on the disk and in memory."""
    tables = ("entry", "checkpoint", "blob")
    rows = tuple(tuple(ledger.db.execute(f"SELECT * FROM {name}")) for name in tables)
    return (ledger.size, ledger.root, rows)


def test_entries_come_back_as_they_were_appended(path: Path) -> None:
    with Ledger.open(path) as ledger:
        first = ledger.append([draft(0), draft(1)])
        second = ledger.append([draft(2)])
        assert [entry.index for entry in first + second] == [0, 1, 2]
        assert tuple(ledger.entries()) == first + second
    with LedgerReader.open_read_only(path) as reader:
        assert tuple(reader.entries()) == first + second


def test_each_group_leaves_a_checkpoint_with_the_root_of_all_entries(path: Path) -> None:
    with Ledger.open(path, clock=iter((10, 20)).__next__) as ledger:
        assert ledger.root == EMPTY_ROOT.hex()
        assert ledger.checkpoint is None
        ledger.append([draft(0), draft(1)])
        ledger.append([draft(2)])
        leaves = [entry.leaf_hash for entry in ledger.entries()]
        checkpoints = [(c.size, c.root, c.time_ns, c.note) for c in ledger.checkpoints()]
        assert checkpoints == [
            (2, Frontier().grown(leaves[:2]).root.hex(), 10, None),
            (3, Frontier().grown(leaves).root.hex(), 20, None),
        ]
        assert ledger.root == checkpoints[-1][1]


def test_a_reopened_ledger_goes_on_where_it_stopped(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(n) for n in range(5)])
        root = ledger.root
    with Ledger.open(path) as ledger:
        assert (ledger.size, ledger.root) == (5, root)
        assert ledger.append([draft(5)])[0].index == 5


def test_drafts_get_the_clock_unless_they_bring_a_time(path: Path) -> None:
    with Ledger.open(path, clock=lambda: 77) as ledger:
        entries = ledger.append([EntryDraft("a", "b", {}), EntryDraft("a", "b", {}, time_ns=5)])
        assert [entry.time_ns for entry in entries] == [77, 5]


def test_numbered_entries_must_carry_the_next_index(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([Entry(0, 1, "a", "b", None, {})])
        with pytest.raises(EntryError, match="index: 2 is not allowed; the next entry is 1"):
            ledger.append([Entry(2, 1, "a", "b", None, {})])
        assert ledger.size == 1


def test_an_empty_group_commits_nothing(path: Path) -> None:
    with Ledger.open(path) as ledger:
        assert ledger.append([]) == ()
        assert ledger.checkpoint is None


def test_small_blobs_are_committed_with_their_group(path: Path) -> None:
    content = b"x" * SMALL_BLOB_BYTES
    with Ledger.open(path) as ledger:
        ledger.append([draft(0, blobs=(Digest.of(content),))], {Digest.of(content): content})
    with LedgerReader.open_read_only(path) as reader:
        row = reader.blob(Digest.of(content))
        assert row is not None
        assert (row.content, row.size, row.pruned) == (content, SMALL_BLOB_BYTES, False)


def test_a_small_blob_may_come_twice(path: Path) -> None:
    blob = {Digest.of(b"x"): b"x"}
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)], blob)
        ledger.append([draft(1)], blob)
        assert ledger.size == 2


def test_a_damaged_small_blob_is_mended_when_it_comes_again(path: Path) -> None:
    blob = {Digest.of(b"x"): b"x"}
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)], blob)
        ledger.db.execute("UPDATE blob SET content = x'00'")
        ledger.db.commit()
        ledger.append([draft(1)], blob)
        assert ledger.blob(Digest.of(b"x")).content == b"x"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("digest", "content", "message"),
    [
        (Digest.of(b"y"), b"x", "its bytes have the digest"),
        (
            Digest.of(b"x" * (SMALL_BLOB_BYTES + 1)),
            b"x" * (SMALL_BLOB_BYTES + 1),
            "65537 bytes are too many inside the ledger; .* blob store",
        ),
    ],
)
def test_a_wrong_blob_is_refused_and_nothing_stored(
    path: Path, digest: Digest, content: bytes, message: str
) -> None:
    with Ledger.open(path) as ledger:
        before = state(ledger)
        with pytest.raises(BlobError, match=message):
            ledger.append([draft(0)], {digest: content})
        assert state(ledger) == before


def test_a_bad_entry_anywhere_in_a_group_stores_nothing_of_it(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)])
        before = state(ledger)
        with pytest.raises(EntryError, match="actor"):
            ledger.append([draft(1), EntryDraft("a", "", {})])
        assert state(ledger) == before


def test_a_full_disk_stores_nothing_and_the_next_append_works(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)])
        before = state(ledger)
        pages = ledger.db.execute("PRAGMA page_count").fetchone()[0]
        ledger.db.execute(f"PRAGMA max_page_count = {pages + 2}")
        big = [EntryDraft("a", "b", {"x": "y" * 3000}) for _ in range(20)]
        with pytest.raises(LedgerWriteError, match=r"20 entries not stored: .* full; nothing was"):
            ledger.append(big)
        assert state(ledger) == before
        ledger.db.execute("PRAGMA max_page_count = 1000000")
        ledger.append(big)
    with Ledger.open(path) as ledger:
        assert ledger.size == 21


def test_a_busy_database_stores_nothing_and_the_next_append_works(path: Path) -> None:
    with Ledger.open(path, busy_seconds=0.01) as ledger:
        ledger.append([draft(0)])
        before = state(ledger)
        other = sqlite3.connect(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            LedgerWriteError,
            match="1 entry not stored: the database is locked by another program",
        ):
            ledger.append([draft(1)])
        assert state(ledger) == before
        other.close()
        ledger.append([draft(1)])
        assert ledger.size == 2


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entry SET body = '{}' WHERE idx = 1",
        "DELETE FROM entry WHERE idx = 3",
        "INSERT OR REPLACE INTO entry SELECT idx, time_ns, kind, 'x', device, body, blobs, leaf"
        " FROM entry WHERE idx = 1",
        "REPLACE INTO entry SELECT 5, time_ns, kind, actor, device, body, blobs, leaf"
        " FROM entry WHERE idx = 1",
        "INSERT OR IGNORE INTO entry SELECT idx, 1, kind, actor, device, body, blobs, leaf"
        " FROM entry WHERE idx = 1",
        "INSERT INTO entry SELECT NULL, time_ns, kind, actor, device, body, blobs, leaf"
        " FROM entry WHERE idx = 1",
        "INSERT INTO entry SELECT -1, time_ns, kind, actor, device, body, blobs, leaf"
        " FROM entry WHERE idx = 1",
        "UPDATE OR REPLACE entry SET idx = 2 WHERE idx = 1",
        "UPDATE checkpoint SET root = x'00'",
        "DELETE FROM checkpoint",
        "INSERT OR REPLACE INTO checkpoint SELECT size, x'00', time_ns, note FROM checkpoint",
        "INSERT INTO checkpoint SELECT size + 1, root, time_ns, note FROM checkpoint",
        "INSERT INTO checkpoint SELECT size - 1, root, time_ns, note FROM checkpoint",
    ],
)
def test_guards_refuse_whatever_is_not_the_next_row(path: Path, sql: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(n) for n in range(4)])
        before = state(ledger)
        with pytest.raises(sqlite3.IntegrityError, match="is append-only"):
            ledger.db.execute(sql)
        ledger.db.rollback()
        assert state(ledger) == before


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE idx = 3",
        "INSERT OR REPLACE INTO checkpoint SELECT size, x'00', 0, '' FROM checkpoint"
        " WHERE size = 12",
    ],
)
def test_guards_hold_without_recursive_triggers(path: Path, sql: str) -> None:
    fill(path.parent)
    plain = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        plain.execute(sql)
    plain.close()


def test_the_writer_is_durable_and_strict(path: Path) -> None:
    with Ledger.open(path) as ledger:
        values = [
            ledger.db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "recursive_triggers", "wal_autocheckpoint")
        ]
        assert values == ["wal", 2, 1, 4096]
        assert all(
            Database(ledger.db).table(name).strict for name in ("entry", "checkpoint", "blob")
        )


def test_a_second_writer_is_refused_and_told_who_writes(path: Path) -> None:
    command = (
        "import sys; from pathlib import Path;"
        "from fleetledger.coordinator.ledger.store import Ledger;"
        "Ledger.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(LedgerLockedError, match=rf"process {other.pid} is writing this ledger"):
            Ledger.open(path)
        other.kill()
    with Ledger.open(path) as ledger:
        assert ledger.size == 0


def test_the_lock_is_free_after_a_failed_opening(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(LedgerError, match="cannot be opened as a ledger: file is not a database"):
        Ledger.open(path)
    path.unlink()
    Ledger.open(path).close()


def test_a_writer_does_not_append_to_entries_that_miss_their_checkpoint(path: Path) -> None:
    fill(path.parent)
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE idx = 11")
    with pytest.raises(LedgerCorruptError, match="newest checkpoint: size and root should be 11"):
        Ledger.open(path)


@pytest.mark.parametrize(
    ("layout", "text"),
    [(0, "holds no ledger; start the coord"), (1, "layout 1 of another release, this one reads 2")],
)
def test_a_ledger_of_another_layout_is_refused(path: Path, layout: int, text: str) -> None:
    fill(path.parent)
    with tampering(path) as connection:
        connection.execute(f"PRAGMA user_version = {layout}")
    with pytest.raises(LedgerError, match=text):
        Ledger.open(path)
    with pytest.raises(LedgerError, match=text):
        LedgerReader.open_read_only(path)


def test_another_thread_is_refused(path: Path) -> None:
    errors: list[Exception] = []

    def use(ledger: Ledger) -> None:
        try:
            ledger.append([draft(0)])
        except sqlite3.ProgrammingError as error:
            errors.append(error)

    with Ledger.open(path) as ledger:
        thread = threading.Thread(target=use, args=(ledger,))
        thread.start()
        thread.join()
        assert len(errors) == 1


def test_blobs_that_were_used_and_not_kept_are_marked_with_the_entries_that_name_them(
    path: Path,
) -> None:
    digest = Digest.of(b"used")
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)], pruned={digest: 4})
        row = ledger.blob(digest)
        assert row is not None
        assert (row.pruned, row.size, row.content) == (True, 4, None)
        before = state(ledger)
        with pytest.raises(EntryError):
            ledger.append([EntryDraft("Bad Kind", "x", {})], pruned={Digest.of(b"no"): 2})
        assert state(ledger) == before
