"""Projection tables follow the entries, and a rebuild gives equal rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry, EntryDraft
from fleetledger.coordinator.ledger.projections import LONGEST_RUN, Projection, Projections, RunRule
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
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


class Runs:
    """Two tables whose rules only note what they are given: "t 0-2" is a run of entries 0 to 2."""

    def __init__(self, *, second_takes_runs: bool) -> None:
        self.given: list[str] = []
        runs = {"a": self._rule("t"), "b": self._rule("t")}
        alone = {} if second_takes_runs else {"a": lambda db, entry: self._rule("u")(db, [entry])}
        second = {"a": self._rule("u")} if second_takes_runs else {}
        columns = {"x": int}
        self.tables = Projections(
            [
                Projection("t", columns, ("x",), {}, runs=runs),
                Projection("u", columns, ("x",), alone, runs=second),
            ]
        )

    def _rule(self, table: str) -> RunRule:
        def note(_db: Database, run: Sequence[Entry]) -> None:
            self.given.append(f"{table} {run[0].index}-{run[-1].index}")

        return note


def kinds(text: str) -> list[EntryDraft]:
    return [EntryDraft(kind, "test", {}) for kind in text]


def test_rules_for_runs_are_given_entries_of_one_kind_that_follow_each_other(
    tmp_path: Path,
) -> None:
    runs = Runs(second_takes_runs=True)
    with Ledger.open(tmp_path / "ledger.db", runs.tables) as ledger:
        ledger.append(kinds("aaabca"))
    assert runs.given == ["t 0-2", "u 0-2", "t 3-3", "t 5-5", "u 5-5"]


def test_beside_a_rule_for_one_entry_every_run_is_one_entry(tmp_path: Path) -> None:
    runs = Runs(second_takes_runs=False)
    with Ledger.open(tmp_path / "ledger.db", runs.tables) as ledger:
        ledger.append(kinds("aabb"))
    assert runs.given == ["t 0-0", "u 0-0", "t 1-1", "u 1-1", "t 2-3"]


def test_a_rebuild_does_not_hold_more_than_the_longest_run(tmp_path: Path) -> None:
    runs = Runs(second_takes_runs=True)
    with Ledger.open(tmp_path / "ledger.db", runs.tables) as ledger:
        ledger.append(kinds("b" * (LONGEST_RUN + 2)))
        runs.given.clear()
        ledger.rebuild_projections()
    assert runs.given == [f"t 0-{LONGEST_RUN - 1}", f"t {LONGEST_RUN}-{LONGEST_RUN + 1}"]


def test_whether_a_rule_takes_runs_is_no_other_declaration() -> None:
    alone = Projection("t", {"x": int}, ("x",), {"b": lambda *_: None, "a": lambda *_: None})
    runs = replace(alone, rules={"b": alone.rules["b"]}, runs={"a": lambda *_: None})
    assert runs.declaration == alone.declaration
