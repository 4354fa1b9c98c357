"""Shards: each has a tree of its own, begins with how the one before ended, and is proven by it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetledger.coordinator.errors import AuditError, EntryError, LedgerWriteError
from fleetledger.coordinator.ledger.audit import audit, exported_entries
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.entries import COLUMNS, Entry
from fleetledger.coordinator.ledger.keys import signer_of_notes
from fleetledger.coordinator.ledger.proving import check, prove
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.shards import LogShards
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.tiles import export
from fleetledger.coordinator.ledger.verify import VerificationReport, verify
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.proofs.entry import EntryProof
from fleetledger.schemas.proofs.shards import SHARD_BEGAN
from fleetledger.schemas.proofs.tree import Frontier
from fleetledger.schemas.values import Digest, FleetId
from tests.coordinator.ledger.support import TABLES, draft, open_store, shard_draft, tampering
from tests.schemas.proofs import slow

FLEET = FleetId("orchard")
KEY = SigningKey.fresh(KeyName("orchard/coordinator"))
FIRSTS = (0, 300, 301, 340)
SIZE = 620
"""The last shard has 280 entries, so that all have nodes of other levels, and one has none."""


def opened(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger.db", TABLES, sign_note=signer_of_notes(KEY, FLEET))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    with opened(folder) as ledger:
        while ledger.size < SIZE:
            start = ledger.size
            end = min(one for one in (*FIRSTS, SIZE) if one > start)
            if start in FIRSTS[1:]:
                ledger.append([shard_draft(ledger)])
            else:
                ledger.append([draft(n) for n in range(start, min(start + 7, end))])
    return folder / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> LedgerReader:
    return LedgerReader.open_read_only(path, TABLES)


def verified(path: Path) -> VerificationReport:
    with LedgerReader.open_read_only(path, TABLES) as ledger:
        return verify(ledger, Blobs(ledger, open_store(path.parent)))


def test_every_root_and_path_is_the_rfcs_of_its_own_shard(ledger: LedgerReader) -> None:
    assert ledger.shards == LogShards(FIRSTS)
    data = [entry.canonical for entry in ledger.entries()]
    for size in (1, 299, 300, 301, 302, 340, 341, 356, SIZE):
        first = max(one for one in FIRSTS if one < size)
        head = ledger.head_at(size)
        assert (head.first, head.leaves) == (first, size - first)
        assert head.root == slow.mth(data[first:size]).hex()
    for index in (0, 299, 300, 301, 339, 340, 596, SIZE - 1):
        number = max(n for n, one in enumerate(FIRSTS) if one <= index)
        leaves = data[FIRSTS[number] : (*FIRSTS, SIZE)[number + 1]]
        proof = ledger.inclusion_proof(index, SIZE)
        place = index - FIRSTS[number]
        assert (proof.index, proof.size) == (place, len(leaves))
        assert list(proof.path) == [item.hex() for item in slow.path(place, leaves)]


def test_a_ledger_goes_on_after_it_was_opened_anew(tmp_path: Path, path: Path) -> None:
    with sqlite3.connect(path) as source, sqlite3.connect(tmp_path / "ledger.db") as copy:
        source.backup(copy)
    with opened(tmp_path) as ledger:
        assert (ledger.size, ledger.shard.first) == (SIZE, FIRSTS[-1])
        ledger.append([draft(SIZE)])
        ledger.append([shard_draft(ledger)])
        assert ledger.entry(SIZE + 1).kind == SHARD_BEGAN
    report = verified(tmp_path / "ledger.db")
    assert (report.ok, report.entries) == (True, SIZE + 2), str(report)


@pytest.mark.parametrize("index", [0, 299, 300, 320, 340, SIZE - 1])
def test_the_proof_of_any_entry_leads_to_the_newest_note(ledger: LedgerReader, index: int) -> None:
    proof = prove(ledger, index)
    proven = check(proof, FLEET, [KEY.verify_key])
    assert (proven.entry, proven.checkpoint.head) == (ledger.entry(index), ledger.head_at(SIZE))


def altered_proofs(proof: EntryProof) -> list[EntryProof]:
    newest, *others = proof.shards
    moved = newest.inclusion.model_copy(update={"index": 1})
    links = [
        (),
        tuple(others),
        (newest, *others[:-1]),
        (newest, *reversed(others)),
        (newest, newest, *others),
        (newest.model_copy(update={"inclusion": moved}), *others),
        (newest.model_copy(update={"entry": newest.entry.replace("3", "4")}), *others),
        (newest.model_copy(update={"entry": others[0].entry}), *others),
    ]
    return [proof.model_copy(update={"shards": changed}) for changed in links]


def test_links_that_lead_elsewhere_prove_nothing(ledger: LedgerReader) -> None:
    for altered in altered_proofs(prove(ledger, 7)):
        with pytest.raises(AuditError):
            check(altered, FLEET, [KEY.verify_key])


def test_an_ordinary_entry_links_to_nothing(tmp_path: Path) -> None:
    """Who may write entries cannot make one pass for the beginning of a shard."""
    with opened(tmp_path) as ledger:
        for _ in range(2):
            ledger.append([draft(0), draft(1)])
        ledger.append([shard_draft(ledger)])
        ledger.append([draft(2)])
        proof = prove(ledger, 1)
        link = proof.shards[0].model_copy(
            update={
                "entry": ledger.entry(5).canonical.decode(),
                "inclusion": ledger.inclusion_proof(5, 6),
            }
        )
        with pytest.raises(AuditError, match="its first entry stands at 0 of 2"):
            check(proof.model_copy(update={"shards": (link,)}), FLEET, [KEY.verify_key])


def test_a_shard_begins_only_with_how_the_former_one_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with pytest.raises(EntryError):
            ledger.append([shard_draft(ledger)])
        ledger.append([draft(0)])
        good = shard_draft(ledger)
        ledger.append([draft(1)])
        for group in ([good], [draft(2), shard_draft(ledger)]):
            with pytest.raises(EntryError):
                ledger.append(group)
        wrong = shard_draft(ledger)
        with pytest.raises(EntryError):
            ledger.append([wrong._replace(body={**wrong.body, "number": 2})])
        assert (ledger.size, ledger.shards) == (2, LogShards())
        ledger.append([shard_draft(ledger), draft(3)])
        assert ledger.shards == LogShards((0, 2))
    assert verified(tmp_path / "ledger.db").ok


def test_a_shard_that_could_not_be_committed_has_not_begun(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append([draft(0)])
        before = (ledger.size, ledger.root, ledger.shards)
        group = [shard_draft(ledger), draft(3, kind="contribution.withdrawn")]
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            connection.execute(
                "CREATE TRIGGER no BEFORE DELETE ON parts BEGIN"
                " SELECT raise(ABORT, 'the disk is full'); END"
            )
        with pytest.raises(LedgerWriteError):
            ledger.append(group)
        assert (ledger.size, ledger.root, ledger.shards) == before
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            connection.execute("DROP TRIGGER no")
        ledger.append(group)
    assert verified(tmp_path / "ledger.db").ok


def test_a_former_shard_that_was_rewritten_as_a_whole_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        for number in range(3):
            ledger.append([draft(number)])
        ledger.append([shard_draft(ledger)])
        leaves = [entry.leaf_hash for entry in ledger.entries(0, 2)]
    other = Entry.from_draft(draft(77), 2, 1)
    root = Frontier().grown([*leaves, other.leaf_hash]).root
    columns = ", ".join(f"{name} = ?" for name in COLUMNS)
    with tampering(tmp_path / "ledger.db") as connection:
        connection.execute(f"UPDATE entry SET {columns} WHERE idx = 2", other.to_row())
        connection.execute("UPDATE checkpoint SET root = ?, note = NULL WHERE size = 3", (root,))
    assert str(verified(tmp_path / "ledger.db")).startswith("entry 3: former shard should be ")


@pytest.fixture
def exported(path: Path, tmp_path: Path) -> Path:
    with LedgerReader.open_read_only(path) as ledger:
        assert export(ledger, tmp_path / "exported") == SIZE
    return tmp_path / "exported"


def test_an_export_has_a_folder_for_each_later_shard_and_is_audited(
    exported: Path, ledger: LedgerReader
) -> None:
    assert sorted(item.name for item in (exported / "shard").iterdir()) == ["1", "2", "3"]
    found = audit(exported, FLEET, (KEY.verify_key,))
    assert (found.checkpoint.head, found.kinds[SHARD_BEGAN]) == (ledger.head_at(SIZE), 3)
    assert list(exported_entries(exported)) == list(ledger.entries())


def _take_first_away(folder: Path) -> None:
    (folder / "checkpoint").unlink()


def _exchange_checkpoints(folder: Path) -> None:
    shutil.copy(folder / "shard/1/checkpoint", folder / "shard/2/checkpoint")


def _change_an_entry(folder: Path) -> None:
    file = folder / "shard/3/entries/000"
    file.write_bytes(file.read_bytes().replace(b'"part":345', b'"part":346'))


def _change_a_start(folder: Path) -> None:
    file = folder / "shard/2/entries/000.p/39"
    file.write_bytes(file.read_bytes().replace(b'"number":2', b'"number":1'))


@pytest.mark.parametrize(
    "change",
    [_take_first_away, _exchange_checkpoints, _change_an_entry, _change_a_start],
)
def test_an_export_whose_shards_do_not_follow_does_not_hold(
    exported: Path, change: Callable[[Path], None]
) -> None:
    change(exported)
    with pytest.raises(AuditError):
        audit(exported, FLEET, (KEY.verify_key,))


def test_a_shard_that_ended_otherwise_than_the_next_one_says_does_not_hold(
    exported: Path, tmp_path: Path
) -> None:
    """Both are signed: the coordinator has told two histories."""
    with opened(tmp_path / "other") as other:
        while other.size < FIRSTS[1]:
            other.append([draft(other.size + 1)])
        export(other, tmp_path / "others")
    for name in ("entries", "tile"):
        (tmp_path / "others" / name).rename(tmp_path / "others" / f"new-{name}")
        (exported / name).rename(exported / f"former-{name}")
        (tmp_path / "others" / f"new-{name}").rename(exported / name)
    (tmp_path / "others/checkpoint").replace(exported / "checkpoint")
    with pytest.raises(AuditError, match="and shard 0 ended with"):
        audit(exported, FLEET, (KEY.verify_key,))


def test_the_root_of_a_shard_that_has_ended_is_the_last_one(ledger: LedgerReader) -> None:
    assert ledger.head_at(FIRSTS[1]).root == Digest(str(ledger.entry(300).body["former_root"]))
