"""Tables that are a function of the entries: kept in step by the writer, rebuilt by anyone.

A projection is declared as a name, columns and one small rule per kind of entry. The laws:

- the tables change only through rules, in the transaction that commits the entry;
- a rule reads its entry and the projections' tables, nothing else: no clock, no other table;
- so applying all entries to empty tables gives equal rows (`rebuild`, `first_difference`).

A kind of which there are many in a row may have a rule for a run of entries instead, which adds
their rows with one statement. Where all rules of a kind are such, each takes the run before the
next one does, so none of them may read another's table; where one is not, every run is one entry.

A declaration that differs from the recorded one (a new column, a higher `version` because a rule
changed) makes the writer rebuild the tables when it opens the ledger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from sqlite_utils import Database

from fleetledger.coordinator.errors import Mismatch
from fleetledger.coordinator.ledger.database import LedgerDatabase
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.errors import shorten

Rule = Callable[[Database, Entry], None]
RunRule = Callable[[Database, Sequence[Entry]], None]
"""Takes entries of one kind that follow each other."""

LONGEST_RUN = 1000
"""Entries that a rule is given at once: a rebuild does not hold a whole ledger."""


@dataclass(frozen=True)
class Projection:
    """One table and how each kind of entry changes it.

    `columns` maps a name to `int`, `str`, `bytes` or `float`; `key` are the primary key's columns.
    A kind has its rule in `rules` or in `runs`. Raise `version` when a rule changes its meaning.
    """

    name: str
    columns: Mapping[str, type]
    key: tuple[str, ...]
    rules: Mapping[str, Rule]
    version: int = 1
    runs: Mapping[str, RunRule] = field(default_factory=dict)
    indexes: tuple[tuple[str, ...], ...] = ()
    """Columns that queries look for rows by, beside the key."""

    @property
    def declaration(self) -> str:
        """Text that changes when the table has to be made anew."""
        columns = [[name, kind.__name__] for name, kind in self.columns.items()]
        kinds = sorted((*self.rules, *self.runs))
        declared: list[Any] = [columns, self.key, kinds, self.version]
        if self.indexes:
            declared.append(self.indexes)
        return canonical_json(declared).decode("utf-8")

    @property
    def statement(self) -> str:
        """The statement that makes the table."""
        lines = [f'"{name}" {_SQL_TYPES[kind]}' for name, kind in self.columns.items()]
        lines.append(f"PRIMARY KEY ({_quoted(self.key)})")
        return f'CREATE TABLE "{self.name}" ({", ".join(lines)}) STRICT'


class Projections:
    """All projections of a ledger, in the order in which their rules run."""

    def __init__(self, tables: Iterable[Projection] = ()) -> None:
        self.tables = tuple(tables)
        self._rules: dict[str, list[RunRule]] = {}
        for table in self.tables:
            alone = {kind: _one_by_one(rule) for kind, rule in table.rules.items()}
            for kind, rule in {**alone, **table.runs}.items():
                self._rules.setdefault(kind, []).append(rule)
        self._alone = frozenset(kind for table in self.tables for kind in table.rules)

    def apply(self, db: Database, entries: Iterable[Entry]) -> None:
        """Bring the tables in `db` from before `entries` to after them."""
        for kind, followers in groupby(entries, key=attrgetter("kind")):
            rules = self._rules.get(kind, ())
            longest = 1 if kind in self._alone else LONGEST_RUN
            while rules and (run := list(islice(followers, longest))):
                for rule in rules:
                    rule(db, run)

    def create(self, db: Database) -> None:
        """Make the tables, empty."""
        if isinstance(db, LedgerDatabase):
            db.statements.clear()
        for table in self.tables:
            db.execute(table.statement)
            for columns in table.indexes:
                db.table(table.name).create_index(columns)

    def rebuild(self, db: Database, entries: Iterable[Entry]) -> None:
        """Drop all recorded projections and make the declared ones again from `entries`.

        The caller holds a transaction.
        """
        for name in _recorded(db):
            db.table(name).drop(ignore=True)
        db.execute("DELETE FROM projection")
        self.create(db)
        for table in self.tables:
            db.execute("INSERT INTO projection VALUES (?, ?)", (table.name, table.declaration))
        self.apply(db, entries)

    def outdated(self, db: Database) -> bool:
        """Whether the tables in `db` were declared in another way than these."""
        return _recorded(db) != {table.name: table.declaration for table in self.tables}

    def first_difference(self, db: Database, entries: Iterable[Entry]) -> Mismatch | None:
        """Compare the tables in `db` with a rebuild from `entries`; return what differs first."""
        with self.made_from(entries) as fresh:
            return next(self.differences(db, fresh), None)

    def made_from(self, entries: Iterable[Entry]) -> Database:
        """Return a scratch database in memory with the tables made from `entries`."""
        fresh = LedgerDatabase(memory=True)
        self.create(fresh)
        self.apply(fresh, entries)
        return fresh

    def differences(self, db: Database, fresh: Database) -> Iterator[Mismatch]:
        """Yield every row of `db` that differs from `fresh`, which `made_from` gave."""
        if self.outdated(db):
            expected = ", ".join(sorted(table.name for table in self.tables)) or "none"
            yield Mismatch(
                "projections",
                "declarations",
                f"this program's ({expected})",
                ", ".join(sorted(_recorded(db))) or "none",
            )
            return
        for table in self.tables:
            yield from _table_differences(table, fresh, db)


def json_text(value: object) -> str:
    """Return a value as it stands in a column of text: canonical JSON."""
    return canonical_json(value).decode("utf-8")


def _one_by_one(rule: Rule) -> RunRule:
    def run(db: Database, entries: Sequence[Entry]) -> None:
        for entry in entries:
            rule(db, entry)

    return run


_SQL_TYPES: Mapping[type, str] = {int: "INTEGER", str: "TEXT", float: "REAL", bytes: "BLOB"}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _recorded(db: Database) -> dict[str, str]:
    return dict(db.execute("SELECT name, declaration FROM projection").fetchall())


def _table_differences(table: Projection, fresh: Database, db: Database) -> Iterator[Mismatch]:
    try:
        found = _rows(db, table)
    except sqlite3.DatabaseError as error:
        yield Mismatch(f"projection {table.name}", "the table", "readable", str(error))
        return
    expected = _rows(fresh, table)
    for key, row in expected.items():
        if found.get(key) != row:
            yield _row_difference(table, key, row, found.get(key))
    for key, row in found.items():
        if key not in expected:
            yield Mismatch(_place(table, key), "the row", "absent", shorten(row))


def _rows(db: Database, table: Projection) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return all rows by key, in the order of the keys."""
    columns = ", ".join(f'"{name}"' for name in table.columns)
    order = ", ".join(f'"{name}"' for name in table.key)
    keys = [list(table.columns).index(name) for name in table.key]
    # Names come from declarations in this program.
    sql = f'SELECT {columns} FROM "{table.name}" ORDER BY {order}'  # noqa: S608
    return {tuple(row[i] for i in keys): row for row in db.execute(sql)}


def _row_difference(
    table: Projection,
    key: tuple[Any, ...],
    expected: tuple[Any, ...],
    found: tuple[Any, ...] | None,
) -> Mismatch:
    if found is None:
        return Mismatch(_place(table, key), "the row", shorten(expected), "none")
    for name, want, have in zip(table.columns, expected, found, strict=True):
        if want != have:
            return Mismatch(_place(table, key), name, shorten(want), shorten(have))
    raise AssertionError("called for rows that differ")


def _place(table: Projection, key: tuple[Any, ...]) -> str:
    return f"projection {table.name}, row {', '.join(map(str, key))}"
