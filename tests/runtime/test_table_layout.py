"""Tables are made once, whole, and another layout is told by its number."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fleetledger.runtime.table_layout import atomic, lay_out, layout_of

TABLES = "CREATE TABLE one (a TEXT); CREATE TABLE two (b TEXT)"


def test_tables_are_made_in_an_empty_file_and_stay(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        assert lay_out(db, TABLES, 3) == 3
        db.execute("INSERT INTO one VALUES ('x')")
        db.commit()
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        assert lay_out(db, TABLES, 4) == layout_of(db) == 3
        assert db.execute("SELECT a FROM one").fetchall() == [("x",)]


def test_a_file_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        db.execute("CREATE TABLE theirs (a TEXT)")
        assert lay_out(db, TABLES, 1) == 0
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_tables_are_made_all_or_none(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        with pytest.raises(sqlite3.Error):
            lay_out(db, f"{TABLES}; CREATE nonsense", 1)
        db.rollback()
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == []
        assert layout_of(db) == 0


def test_of_a_block_that_fails_nothing_is_written(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        lay_out(db, TABLES, 1)
        with pytest.raises(sqlite3.Error), atomic(db):
            db.executemany("INSERT INTO one VALUES (?)", [("x",), ("too", "many")])
        assert not db.in_transaction
        with atomic(db):
            db.execute("INSERT INTO two VALUES ('y')")
        rows = db.execute("SELECT a FROM one UNION SELECT b FROM two").fetchall()
    assert rows == [("y",)]
