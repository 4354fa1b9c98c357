"""A rebuild makes the tables again beside the ledger and names every row that differs."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.rebuild import compare, rebuild
from tests.coordinator.ledger.support import TABLES, fill, tampering


def test_tables_that_were_left_alone_equal_their_rebuild(tmp_path: Path) -> None:
    with LedgerReader.open_read_only(fill(tmp_path), TABLES) as ledger:
        report = compare(ledger)
    assert (report.entries, report.rows, report.differences) == (12, {"parts": 2}, ())


def test_every_row_that_differs_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    path = fill(tmp_path)
    with tampering(path) as connection:
        connection.execute("UPDATE parts SET accepted = 5")
        connection.execute("INSERT INTO parts VALUES ('device-1', 1, 1)")
    for _ in range(2):
        with LedgerReader.open_read_only(path, TABLES) as ledger:
            report = compare(ledger)
        assert [mismatch.place for mismatch in report.differences] == [
            "projection parts, row device-0",
            "projection parts, row device-2",
            "projection parts, row device-1",
        ]


def test_a_rebuild_mends_what_it_names(tmp_path: Path) -> None:
    path = fill(tmp_path)
    with tampering(path) as connection:
        connection.execute("DELETE FROM parts")
    assert len(rebuild(path, TABLES).differences) == 2
    with LedgerReader.open_read_only(path, TABLES) as ledger:
        assert compare(ledger).differences == ()
