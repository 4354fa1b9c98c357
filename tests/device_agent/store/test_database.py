"""Statements, transactions and steps; files are read by sqlite-utils and by us alike."""

import sqlite3
from pathlib import Path

import pytest
import sqlite_utils
from sqlite_utils.migrations import Migrations as LibraryMigrations

from device_agent.store.database import Database, Migrations


def steps(names: tuple[str, ...], migrations: Migrations | LibraryMigrations) -> None:
    """Add steps that each make a table of their name."""
    for name in names:

        def step(db: Database, name: str = name) -> None:
            db.execute(f"CREATE TABLE {name} (value INTEGER)")

        step.__name__ = name
        if isinstance(migrations, Migrations):
            migrations(step)
        else:
            migrations(name=name)(step)


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_a_block_takes_effect_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    db = Database(str(tmp_path / "a.db"))
    db.execute("CREATE TABLE one (value INTEGER NOT NULL)")
    with pytest.raises(sqlite3.IntegrityError), db.atomic():
        db.conn.executemany("INSERT INTO one VALUES (?)", [(1,), (None,)])
    with db.atomic():
        db.execute("INSERT INTO one VALUES (2)")
        db.conn.executemany("INSERT INTO one VALUES (?)", [(3,), (4,)])
    db.execute("INSERT INTO one VALUES (5)")
    db.close()
    again = Database(str(tmp_path / "a.db"))
    assert [value for (value,) in again.execute("SELECT value FROM one")] == [2, 3, 4, 5]


def test_a_step_that_fails_leaves_nothing_and_is_done_the_next_time(tmp_path: Path) -> None:
    migrations, broken = Migrations("test"), [True]
    db = Database(str(tmp_path / "a.db"))

    @migrations
    def first(db: Database) -> None:
        db.execute("CREATE TABLE one (value INTEGER)")
        if broken:
            raise KeyError

    with pytest.raises(KeyError):
        migrations.apply(db)
    assert (migrations.applied(db), "one" in tables(tmp_path / "a.db")) == ([], False)
    broken.clear()
    migrations.apply(db)
    migrations.apply(db)
    assert (migrations.applied(db), migrations.names) == (["first"], ("first",))


@pytest.mark.parametrize("library_first", [True, False])
def test_the_record_of_steps_is_that_of_sqlite_utils(tmp_path: Path, library_first: bool) -> None:
    path = tmp_path / "a.db"
    ours, theirs = Migrations("test"), LibraryMigrations("test")
    steps(("one", "two"), ours)
    steps(("one", "two"), theirs)
    if library_first:
        theirs.apply(sqlite_utils.Database(str(path)), stop_before="two")
        ours.apply(Database(str(path)))
    else:
        ours.apply(Database(str(path)), stop_before="two")
        theirs.apply(sqlite_utils.Database(str(path)))
    assert ours.applied(Database(str(path))) == ["one", "two"]
    assert [step.name for step in theirs.applied(sqlite_utils.Database(str(path)))] == [
        "one",
        "two",
    ]
    assert {"one", "two"} <= tables(path)
