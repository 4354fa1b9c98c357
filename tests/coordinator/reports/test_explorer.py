"""The ledger as a file for SQLite explorers, of a ledger with nearly every kind of entry."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reports.explorer import _KEYS, _VIEWS
from tests.coordinator.every_kind.facts import unpack

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
PAGE = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text(encoding="utf-8")
EMPTY = {"rollouts"}
"""Of which this ledger has none."""


def explore(home: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["ledger", "explore", "--home", str(home), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def ready(folder: Path) -> Path:
    """Return a home that a coordinator of this program has opened."""
    home = unpack(folder)
    Ledger.open(ledger_path(home)).close()
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = ready(tmp_path_factory.mktemp("explored"))
    explore(found)
    return found


@pytest.fixture
def db(home: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{(home / 'explore.db').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as opened:
        opened.row_factory = sqlite3.Row
        yield opened


@pytest.mark.parametrize("name", ["entries", *_KEYS, *_VIEWS])
def test_a_list_has_rows_and_times_that_people_read(name: str, db: sqlite3.Connection) -> None:
    if name in EMPTY:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone()
        return
    rows = [dict(row) for row in db.execute(f'SELECT * FROM "{name}"')]
    assert rows
    assert not [column for column in rows[0] if column.endswith("_ns")]
    times = [row["time"] for row in rows if row.get("time") is not None]
    assert all(ISO.fullmatch(time) for time in times)
    assert f"`{name}`" in PAGE


def test_each_kind_of_entry_has_a_view_with_the_columns_of_its_body(
    home: Path, db: sqlite3.Connection
) -> None:
    with ledger_of(home) as ledger:
        bodies = {entry.kind: entry for entry in ledger.entries()}
    for kind in ENTRY_KINDS:
        view = re.sub(r"\W", "_", kind)
        found = [dict(row) for row in db.execute(f'SELECT * FROM "{view}" ORDER BY entry')]
        assert bool(found) == (kind in bodies)
        if found:
            last = bodies[kind]
            assert found[-1]["entry"] == last.index
            said = dict(last.body)
            for name in said.keys() - found[-1].keys():  # an embedded message, or part
                within = said.pop(name)
                said |= {f"{name}_{key}" if key in said else key: within[key] for key in within}
            for name, value in said.items():
                if name not in {"device", "time"}:
                    told = found[-1][name]
                    assert value == (json.loads(told) if isinstance(value, dict | list) else told)


def test_what_devices_measured_last_adds_up_to_what_models_say(db: sqlite3.Connection) -> None:
    right = db.execute(
        "SELECT version, 1.0 * sum(correct) / sum(total) AS accuracy"
        " FROM accuracy_per_class GROUP BY version"
    )
    listed = dict(
        db.execute("SELECT version, accuracy FROM models WHERE accuracy IS NOT NULL").fetchall()
    )
    assert {row["version"]: row["accuracy"] for row in right} == pytest.approx(listed)


def test_it_is_written_beside_a_running_coordinator_and_touches_no_ledger(tmp_path: Path) -> None:
    home = ready(tmp_path)
    before = ledger_path(home).read_bytes()
    with Ledger.open(ledger_path(home)):
        said = explore(home, "--out", str(tmp_path / "elsewhere.db"))
    assert f"datasette {tmp_path / 'elsewhere.db'} --open" in said
    assert ledger_path(home).read_bytes() == before
    assert not (home / "explore.db").exists()


def test_it_says_where_there_is_no_ledger_or_no_folder(home: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["ledger", "explore", "--home", str(tmp_path)])
    assert (done.exit_code, "no ledger at" in done.stderr) == (2, True)
    options = ["--home", str(home), "--out", str(tmp_path / "none" / "file.db")]
    done = CliRunner().invoke(app, ["ledger", "explore", *options])
    assert (done.exit_code, "--out: " in done.stderr) == (2, True)
