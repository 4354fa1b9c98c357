"""Projection tables follow the entries, and a rebuild gives equal rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from coordinator.ledger.projections import Projections
from coordinator.ledger.reader import LedgerReader
from coordinator.ledger.store import Ledger
from tests.coordinator.ledger.support import PARTS, TABLES, fill, tampering


def parts(db: Database) -> list[tuple[object, ...]]:
    return db.execute("SELECT * FROM parts ORDER BY device").fetchall()


def by_hand(reader: LedgerReader) -> list[tuple[object, ...]]:
    """The rows, by a plain dictionary."""
    counts: dict[str, tuple[int, int]] = {}
    for entry in reader.entries():
        assert entry.device is not None
        if entry.kind == "contribution.withdrawn":
            counts.pop(entry.device, None)
        else:
            counts[entry.device] = (counts.get(entry.device, (0, 0))[0] + 1, entry.index)
    return sorted((device, *values) for device, values in counts.items())


def test_tables_follow_the_entries_as_they_are_appended(tmp_path: Path) -> None:
    with LedgerReader.open_read_only(fill(tmp_path), TABLES) as reader:
        rows = parts(reader.db)
        assert rows == by_hand(reader)
        assert rows == [("device-0", 4, 9), ("device-2", 4, 11)]


def test_a_rebuild_gives_equal_rows(tmp_path: Path) -> None:
    path = fill(tmp_path)
    with Ledger.open(path, TABLES) as ledger:
        before = parts(ledger.db)
        ledger.db.execute("DELETE FROM parts")
        ledger.db.commit()
        ledger.rebuild_projections()
        assert parts(ledger.db) == before


def test_a_changed_declaration_is_rebuilt_when_the_writer_opens(tmp_path: Path) -> None:
    def remember(db: Database, entry: object) -> None:
        db.execute("INSERT OR REPLACE INTO parts VALUES ('all', 0, 0, 0)")

    path = fill(tmp_path)
    wider = replace(
        PARTS,
        columns=dict(PARTS.columns) | {"bytes": int},
        rules={"contribution.withdrawn": remember},
    )
    with Ledger.open(path, Projections([wider])) as ledger:
        assert parts(ledger.db) == [("all", 0, 0, 0)]


def test_a_raised_version_is_rebuilt_and_an_equal_declaration_is_not(tmp_path: Path) -> None:
    path = fill(tmp_path)
    with tampering(path) as connection:
        connection.execute("UPDATE parts SET accepted = 99")
    with Ledger.open(path, TABLES) as ledger:
        assert {row[1] for row in parts(ledger.db)} == {99}
    with Ledger.open(path, Projections([replace(PARTS, version=2)])) as ledger:
        assert parts(ledger.db) == by_hand(ledger)


def test_a_projection_that_is_no_longer_declared_is_dropped(tmp_path: Path) -> None:
    with Ledger.open(fill(tmp_path), Projections()) as ledger:
        assert not ledger.db.table("parts").exists()
        assert not Projections().outdated(ledger.db)


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (
            "UPDATE parts SET accepted = 5 WHERE device = 'device-2'",
            "projection parts, row device-2: accepted should be 4, found 5",
        ),
        (
            "DELETE FROM parts WHERE device = 'device-0'",
            "projection parts, row device-0: the row should be ('device-0', 4, 9), found none",
        ),
        (
            "INSERT INTO parts VALUES ('device-1', 1, 1)",
            "projection parts, row device-1: the row should be absent, found ('device-1', 1, 1)",
        ),
        (
            "DROP TABLE parts",
            "projection parts: the table should be readable, found no such table: parts",
        ),
        (
            "DELETE FROM projection",
            "projections: declarations should be this program's (parts), found none",
        ),
    ],
)
def test_the_first_difference_is_located(tmp_path: Path, sql: str, sentence: str) -> None:
    path = fill(tmp_path)
    with tampering(path) as connection:
        connection.execute(sql)
    with LedgerReader.open_read_only(path, TABLES) as reader:
        assert str(TABLES.first_difference(reader.db, reader.entries())) == sentence
