"""Stored nodes: proofs about a real ledger file are the RFC's, and a wrong node is named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.test_verifying import mismatch
from tests.schemas.proofs import slow

SIZE = 300
"""More than 256, so that there are nodes of two stored levels."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger" / "ledger.db"
    with Ledger.open(path) as ledger:
        for start in range(0, SIZE, 7):
            ledger.append([draft(n) for n in range(start, min(start + 7, SIZE))])
    return path


def draft(number: int) -> EntryDraft:
    return EntryDraft("class.named", "operator", {"number": number})


def test_every_proof_is_the_rfcs(path: Path) -> None:
    with LedgerReader.open_read_only(path) as ledger:
        data = [entry.canonical for entry in ledger.entries()]
        leaves = [entry.leaf_hash for entry in ledger.entries()]
        for size in (1, 2, 15, 16, 17, 255, 256, 257, SIZE):
            root = Digest(slow.mth(data[:size]).hex())
            assert ledger.root_at(size) == root
            for index in {0, 1, size // 2, size - 1} & set(range(size)):
                proof = ledger.inclusion_proof(index, size)
                expected = [item.hex() for item in slow.path(index, data[:size])]
                assert list(proof.path) == expected
                proof.check(leaves[index], root)
            grown = ledger.consistency_proof(size, SIZE)
            grown.check(root, ledger.root)


def test_each_complete_group_of_sixteen_has_one_node(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        counts = connection.execute("SELECT level, count(*) FROM node GROUP BY level").fetchall()
    assert counts == [(4, SIZE // 16), (8, SIZE // 256)]


def test_a_group_that_is_not_stored_leaves_no_node(path: Path) -> None:
    before = _nodes(path)
    with Ledger.open(path) as ledger:
        wrong = EntryDraft("class.named", "operator", {"number": 1}, time_ns=-1)
        with pytest.raises(Exception, match="time_ns"):
            ledger.append([*(draft(n) for n in range(40)), wrong])
        ledger.append([draft(SIZE)])
    assert _nodes(path) == before


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("UPDATE node SET hash = zeroblob(32) WHERE level = 4 AND position = 5", "node 5 of level"),
        ("UPDATE node SET hash = zeroblob(32) WHERE level = 8", "node 0 of level 8"),
        ("DELETE FROM node WHERE level = 4 AND position = 17", "node 17 of level 4"),
        ("INSERT INTO node VALUES (4, 18, zeroblob(32))", "node 18 of level 4"),
        ("INSERT INTO node VALUES (12, 0, zeroblob(32))", "node 0 of level 12"),
    ],
)
def test_a_wrong_node_is_named(path: Path, sql: str, named: str) -> None:
    with sqlite3.connect(path) as connection:
        for event in ("insert", "update", "delete"):
            connection.execute(f"DROP TRIGGER node_{event}_guard")
        connection.execute(sql)
    connection.close()
    assert named in str(mismatch(path))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE node SET hash = zeroblob(32)",
        "DELETE FROM node",
        "INSERT INTO node VALUES (4, 19, zeroblob(32))",
        "INSERT OR REPLACE INTO node VALUES (4, 5, zeroblob(32))",
    ],
)
def test_the_guards_let_only_the_next_node_in(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA recursive_triggers = ON")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(sql)
    connection.close()


def test_what_the_ledger_does_not_hold_cannot_be_proven(path: Path) -> None:
    with LedgerReader.open_read_only(path) as ledger:
        with pytest.raises(ProofError, match="holds 300 entries"):
            ledger.inclusion_proof(0, SIZE + 1)
        with pytest.raises(ProofError, match="holds 300 entries"):
            ledger.consistency_proof(1, SIZE + 1)
        with pytest.raises(ProofError, match="no entry of a log of 16"):
            ledger.inclusion_proof(16, 16)


def _nodes(path: Path) -> list[tuple[int, int, bytes]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM node ORDER BY level, position").fetchall()
    connection.close()
    return rows
