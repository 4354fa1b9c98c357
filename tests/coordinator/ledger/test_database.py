"""Rows are written as sqlite_utils writes them, without a look at the schema."""

from __future__ import annotations

from typing import Any

import pytest
from sqlite_utils import Database
from sqlite_utils.db import NotFoundError

from fleetledger.coordinator.ledger.database import LedgerDatabase

MADE = 'CREATE TABLE "order" (device TEXT, "to" INTEGER, note TEXT, PRIMARY KEY (device, "to"))'


def written(db: Database) -> list[Any]:
    db.execute(MADE)
    table = db.table("order")
    table.insert({"device": "a", "to": 1, "note": ["é", {"x": 1.5}]})
    table.insert({"device": "a", "to": 1, "note": "anew"}, replace=True)
    table.insert({"device": "a", "to": 1, "note": "too late"}, ignore=True)
    table.insert({"device": "a", "to": 2})
    table.insert_all({"device": "b", "to": n, "note": True} for n in range(5))
    table.insert_all([])
    table.update(("b", 3), {"note": (1, 2), "to": 30})
    table.update(["a", 2], {"note": None})
    return list(db.execute('SELECT * FROM "order" ORDER BY device, "to"'))


def test_what_is_written_is_the_same() -> None:
    db = LedgerDatabase(memory=True)
    found = written(db)
    assert len(found) == 7
    assert found == written(Database(memory=True))


def test_a_row_that_is_not_there_is_not_changed() -> None:
    db = LedgerDatabase(memory=True)
    written(db)
    with pytest.raises(NotFoundError):
        db.table("order").update(("c", 3), {"note": "x"})


def test_a_table_that_is_made_anew_has_its_new_key() -> None:
    db = LedgerDatabase(memory=True)
    written(db)
    db.table("order").drop()
    db.execute('CREATE TABLE "order" (device TEXT PRIMARY KEY, "to" INTEGER, note TEXT)')
    db.statements.clear()
    db.table("order").insert({"device": "a", "to": 1, "note": "x"})
    db.table("order").update("a", {"note": "y", "to": 5})
    assert list(db.execute('SELECT * FROM "order"')) == [("a", 5, "y")]
