"""The ledger in SQLite explorers: every view and query, on a ledger with every kind of entry."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.ledger.lock import WriterLock
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reading.explorer import QUERIES
from fleetledger.coordinator.reading.sql_views import SQL_VIEWS
from fleetledger.coordinator.reading.tables import TABLES
from tests.coordinator.every_kind.facts import grow_old, unpack

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TIMES = ("time", "made", "opened", "closed", "admitted", "last_start", "expires", "silent_since")
PAGE = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text(encoding="utf-8")
EMPTY = {"keys", "devices_that_refused", "tags"}
"""Of which this ledger may have none."""


def explore(home: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["ledger", "explore", "--home", str(home), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An older program's ledger, explored."""
    found = unpack(tmp_path_factory.mktemp("explored"))
    explore(found)
    return found


@pytest.fixture
def db(home: Path) -> Iterator[sqlite3.Connection]:
    """As explorers open it."""
    uri = f"{ledger_path(home).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as opened:
        opened.row_factory = sqlite3.Row
        yield opened


def told(home: Path) -> dict[str, Any]:
    return json.loads((home / "metadata.json").read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", QUERIES)
def test_a_canned_query_runs_and_answers(name: str, home: Path, db: sqlite3.Connection) -> None:
    sql = told(home)["databases"]["ledger"]["queries"][name]["sql"]
    assert sql == QUERIES[name].sql
    rows = db.execute(sql, {"device": "dev-1"}).fetchall()
    assert rows or name in EMPTY


@pytest.mark.parametrize("name", SQL_VIEWS)
def test_a_view_has_rows_and_times_that_people_read(name: str, db: sqlite3.Connection) -> None:
    rows = [dict(row) for row in db.execute(f'SELECT * FROM "{name}"')]
    assert rows or name in EMPTY
    assert not [column for column in (rows or [{}])[0] if column.endswith("_ns")]
    times = [row[column] for row in rows for column in TIMES if row.get(column) is not None]
    assert all(ISO.fullmatch(time) for time in times)


def test_views_agree_with_the_tables_that_they_show(db: sqlite3.Connection) -> None:
    for view, table in (("entries", "entry"), ("devices", "device")):
        counts = [
            db.execute(f'SELECT count(*) FROM "{one}"').fetchone()[0] for one in (view, table)
        ]
        assert counts[0] == counts[1]


def test_columns_say_what_they_name(db: sqlite3.Connection) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    linked = 0
    for table in tables:
        for link in db.execute(f'PRAGMA foreign_key_list("{table}")'):
            columns = [row["name"] for row in db.execute(f'PRAGMA table_info("{link["table"]}")')]
            assert link["to"] in columns
            linked += 1
    assert linked >= 20
    assert db.execute("PRAGMA foreign_key_check(contribution)").fetchall() == []


def test_metadata_speaks_of_what_there_is(home: Path, db: sqlite3.Connection) -> None:
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    tables = told(home)["databases"]["ledger"]["tables"]
    assert set(tables) <= names
    for name, table in tables.items():
        columns = {row["name"] for row in db.execute(f'PRAGMA table_info("{name}")')}
        assert {*table.get("columns", {}), *table.get("units", {})} <= columns
    assert all(f"`{view}`" in PAGE for view in SQL_VIEWS)


def test_the_ledger_fits_with_views_and_keeps_them_when_tables_are_made_anew(home: Path) -> None:
    with Ledger.open(ledger_path(home), TABLES) as ledger:
        ledger.rebuild_projections()
        assert not TABLES.lacks_views(ledger.db)
        assert TABLES.first_difference(ledger.db, ledger.entries()) is None


def test_an_older_ledger_that_is_being_written_is_not_touched(tmp_path: Path) -> None:
    home = unpack(tmp_path)
    grow_old(home)
    path = ledger_path(home)
    lock = WriterLock(path.with_name(path.name + ".lock"))
    try:
        done = CliRunner().invoke(app, ["ledger", "explore", "--home", str(home)])
    finally:
        lock.release()
    assert done.exit_code == 1
    assert "restart it" in done.stderr
    assert not (home / "metadata.json").exists()


def test_it_says_how_to_open_it_and_writes_where_it_is_told(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "other file.json"
    said = explore(home, "--out", str(out))
    assert f"datasette {ledger_path(home)} --metadata '{out}'" in said
    assert "sqlite-utils rows" in said
    assert " -i" not in said
    assert json.loads(out.read_text("utf-8")) == told(home)
