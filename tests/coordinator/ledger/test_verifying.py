"""History cannot be changed unseen: `verify` names the first entry or blob that does not fit."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from fleetledger.coordinator.errors import Mismatch
from fleetledger.coordinator.ledger.blobs import Blobs, prune_held
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import VerificationReport, verify
from fleetledger.coordinator.topics.rounds.entries import WeightsPruned
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import (
    LARGE,
    SMALL,
    draft,
    entry_row,
    fill,
    open_store,
    tampering,
)

KIND = "contribution.accepted"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path)


def verified(path: Path) -> VerificationReport:
    with LedgerReader.open_read_only(path) as reader:
        return verify(reader, Blobs(reader, open_store(path.parent)))


def mismatch(path: Path) -> Mismatch:
    report = verified(path)
    assert report.mismatch is not None
    assert not report.ok
    return report.mismatch


def rewrite(connection: sqlite3.Connection, index: int, entry: Entry) -> None:
    """Put `entry` into the row `index`, with a leaf that fits it."""
    connection.execute("DELETE FROM entry WHERE idx = ?", (index,))
    connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entry.to_row())


def test_an_untouched_ledger_fits(path: Path) -> None:
    report = verified(path)
    with LedgerReader.open_read_only(path) as reader:
        root = reader.root
    assert report == VerificationReport(12, 3, 2, (), root, None)
    assert str(report) == f"12 entries, 3 checkpoints and 2 blobs fit; root {root}"


def test_an_empty_ledger_fits(tmp_path: Path) -> None:
    path = tmp_path / "empty" / "ledger.db"
    Ledger.open(path).close()
    assert verified(path).ok


def test_the_writer_may_verify_and_go_on(path: Path) -> None:
    with Ledger.open(path) as ledger:
        assert verify(ledger, Blobs(ledger, open_store(path.parent))).ok
        ledger.append([draft(12)])
        seen: list[int] = []
        assert verify(ledger, Blobs(ledger, open_store(path.parent)), seen.append).ok
        assert seen == [13]


def test_verifying_sees_one_state_while_the_writer_goes_on(path: Path) -> None:
    with Ledger.open(path) as ledger, LedgerReader.open_read_only(path) as reader:
        report = verify(
            reader,
            Blobs(reader, open_store(path.parent)),
            lambda done: ledger.append([draft(100 + done)]) and None,
        )
        assert (report.ok, report.entries, ledger.size) == (True, 12, 13)


def test_an_edited_body_is_named_by_its_leaf(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET body = replace(body, '0.25', '0.75') WHERE idx = 6")
    found = mismatch(path)
    assert (found.index, found.kind, found.field) == (6, KIND, "leaf")
    assert str(found).startswith(f"entry 6 ({KIND}): leaf should be ")


def test_an_edited_body_with_a_new_leaf_is_named_by_its_checkpoint(path: Path) -> None:
    with tampering(path) as connection:
        old = Entry.from_row(entry_row(connection, 6))
        forged = Entry(
            6, old.time_ns, old.kind, old.actor, old.device, old.body | {"share": 0.75}, old.blobs
        )
        rewrite(connection, 6, forged)
    found = mismatch(path)
    assert (found.index, found.field) == (4, "root")
    assert "checkpoint of size 8 (entries 4 to 7, or their order)" in str(found)


def test_rewritten_spelling_of_the_same_body_is_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET body = replace(body, ':', ': ') WHERE idx = 2")
    assert (mismatch(path).index, mismatch(path).field) == (2, "body")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entry SET kind = 'contribution.withdrawn' WHERE idx = 3",
        "UPDATE entry SET actor = 'operator' WHERE idx = 3",
        "UPDATE entry SET device = NULL WHERE idx = 3",
        "UPDATE entry SET time_ns = time_ns + 1 WHERE idx = 3",
        "UPDATE entry SET blobs = (SELECT blobs FROM entry WHERE idx = 5) WHERE idx = 3",
        "UPDATE entry SET leaf = zeroblob(32) WHERE idx = 3",
    ],
)
def test_every_edited_column_is_named(path: Path, sql: str) -> None:
    with tampering(path) as connection:
        connection.execute(sql)
    assert (mismatch(path).index, mismatch(path).field) == (3, "leaf")


def test_a_dropped_entry_is_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE idx = 5")
    assert str(mismatch(path)) == "entry 5: index should be 5, found 6 next"


def test_a_dropped_entry_with_the_rest_moved_up_is_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE idx = 5")
        for index in range(6, 12):
            connection.execute("UPDATE entry SET idx = ? WHERE idx = ?", (index - 1, index))
    assert (mismatch(path).index, mismatch(path).field) == (5, "leaf")


def test_an_entry_put_before_all_others_is_named(path: Path) -> None:
    with tampering(path) as connection:
        row = entry_row(connection, 0)
        connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [-1, *row[1:]])
    assert str(mismatch(path)) == "entry 0: index should be 0, found -1 next"


def test_reordered_entries_are_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET idx = 100 WHERE idx = 9")
        connection.execute("UPDATE entry SET idx = 9 WHERE idx = 8")
        connection.execute("UPDATE entry SET idx = 8 WHERE idx = 100")
    assert (mismatch(path).index, mismatch(path).field) == (8, "leaf")


def test_reordered_entries_with_new_leaves_are_named_by_their_checkpoint(path: Path) -> None:
    with tampering(path) as connection:
        first, second = (Entry.from_row(entry_row(connection, index)) for index in (8, 9))
        for index, source in ((8, second), (9, first)):
            moved = Entry(
                index, source.time_ns, source.kind, source.actor, source.device, source.body
            )
            rewrite(connection, index, moved)
    assert (mismatch(path).index, mismatch(path).field) == (8, "root")


def test_a_truncated_tail_is_named_by_the_checkpoint_that_covered_it(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE idx >= 10")
    assert str(mismatch(path)) == (
        "checkpoint of size 12: number of entries should be 12, found 10"
    )


def test_entries_without_a_checkpoint_are_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM checkpoint WHERE size = 12")
    assert str(mismatch(path)) == (
        "entry 8: checkpoint should be one of size 12, found none for entries 8 to 11"
    )


@pytest.mark.parametrize("root", ["zeroblob(32)", "x'00'"])
def test_an_edited_root_is_named(path: Path, root: str) -> None:
    with tampering(path) as connection:
        connection.execute(f"UPDATE checkpoint SET root = {root} WHERE size = 8")
    assert mismatch(path).field == "root"
    assert "checkpoint of size 8" in mismatch(path).place


def test_a_missing_large_blob_is_named_with_its_entry(path: Path) -> None:
    store = open_store(path.parent)
    store.delete(Digest.of(LARGE))
    assert str(mismatch(path)) == (
        f"entry 5 ({KIND}): blob {Digest.of(LARGE)} should be held whole, found nothing"
    )


def test_a_missing_small_blob_is_named_with_its_entry(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM blob")
    assert mismatch(path).field == f"blob {Digest.of(SMALL)}"


def test_a_flipped_byte_in_a_large_blob_is_named(path: Path) -> None:
    file = open_store(path.parent).local_path(Digest.of(LARGE))
    assert file is not None
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    found = mismatch(path)
    assert (found.index, found.field) == (5, f"blob {Digest.of(LARGE)}")
    assert found.found == f"bytes with the digest {Digest.of(data)}"


def test_a_flipped_byte_in_a_small_blob_is_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("UPDATE blob SET content = ?", (b"smell blob",))
    assert mismatch(path).field == f"blob {Digest.of(SMALL)}"


def test_an_unreadable_blob_is_named(path: Path) -> None:
    file = open_store(path.parent).local_path(Digest.of(LARGE))
    assert file is not None
    file.unlink()
    file.mkdir()
    assert mismatch(path).field == f"blob {Digest.of(LARGE)}"


def test_pruned_blobs_are_listed_and_are_no_mismatch(path: Path) -> None:
    store = open_store(path.parent)
    with Ledger.open(path) as ledger:
        prune_held(ledger, store, [Digest.of(LARGE)])
        prune_held(ledger, store, [Digest.of(SMALL)])
    report = verified(path)
    assert (report.ok, report.blobs) == (True, 0)
    assert report.pruned == (Digest.of(SMALL), Digest.of(LARGE))
    assert "0 blobs fit, 2 pruned;" in str(report)


def test_a_blob_that_is_marked_as_deleted_and_of_which_no_entry_says_so_is_a_mismatch(
    path: Path,
) -> None:
    store, body = (
        open_store(path.parent),
        WeightsPruned(numbers=(1,), digests=(Digest.of(SMALL),), kept_rounds=1),
    )
    with Ledger.open(path) as ledger:
        prune_held(ledger, store, [Digest.of(SMALL)])
        ledger.append([EntryDraft(body.kind, "coordinator", body.model_dump(mode="json"))])
    with LedgerReader.open_read_only(path) as reader:
        assert verify(reader, Blobs(reader, store), prunings=Prunings()).ok
    with Ledger.open(path) as ledger:
        prune_held(ledger, store, [Digest.of(LARGE)])
    with LedgerReader.open_read_only(path) as reader:
        report = verify(reader, Blobs(reader, store), prunings=Prunings())
    assert report.mismatch is not None
    assert f"blob {Digest.of(LARGE)} should be held, or deleted by an entry" in str(report)


def test_of_several_mismatches_the_first_is_named(path: Path) -> None:
    open_store(path.parent).delete(Digest.of(LARGE))
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET actor = 'x' WHERE idx IN (7, 9)")
    assert mismatch(path).index == 5
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET actor = 'x' WHERE idx = 4")
    assert mismatch(path).index == 4


def test_no_flipped_bit_inside_an_entry_in_the_file_goes_unseen(path: Path) -> None:
    whole = path.read_bytes()
    with LedgerReader.open_read_only(path) as reader:
        bodies = [entry.to_row()[5].encode() for entry in reader.entries()]
    rng = random.Random(1)
    for _ in range(60):
        index = rng.randrange(12)
        position = whole.index(bodies[index]) + rng.randrange(len(bodies[index]))
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert mismatch(path).index == index


def test_a_damaged_page_is_reported_and_not_raised(path: Path) -> None:
    with LedgerReader.open_read_only(path) as reader:
        root_page, page_size = reader.db.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master"
            " WHERE name = 'entry'"
        ).fetchone()
    data = bytearray(path.read_bytes())
    start = (root_page - 1) * page_size
    data[start : start + 16] = b"\xff" * 16
    path.write_bytes(data)
    assert "malformed" in mismatch(path).found
