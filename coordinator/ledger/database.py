"""The ledger's database, whose tables are written without asking each time what they look like.

sqlite_utils looks at the schema before every row that it writes, which takes ten times as long as
the row, and opens a savepoint. Rules of projections know their tables, which are there, and run in
a transaction of whoever applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlite_utils import Database
from sqlite_utils.db import NotFoundError, Table, jsonify_if_needed, quote_identifier
from typing_extensions import Self

_PLAIN = frozenset({"replace", "ignore"})
"""Options of an insertion that need no look at the schema."""


_SCALARS = frozenset({int, str, float, bytes, bool, type(None)})


def _stored(values: Iterable[Any]) -> list[Any]:
    """Return values as they are stored: lists and dicts as JSON."""
    return [value if type(value) in _SCALARS else jsonify_if_needed(value) for value in values]


class LedgerTable(Table):
    """A table that is there, with the columns that its rows name."""

    def insert(self, record: Any, *more: Any, **options: Any) -> Self:  # noqa: ANN401
        """Insert a row; with `replace` or `ignore` where there is one with its key."""
        if more or not options.keys() <= _PLAIN:
            super().insert(record, *more, **options)
        else:
            self._insert([record], **options)
        return self

    def insert_all(self, records: Iterable[Any], *more: Any, **options: Any) -> Self:  # noqa: ANN401
        """Insert rows, which all have the columns of the first one."""
        if more or not options.keys() <= _PLAIN:
            super().insert_all(records, *more, **options)
        else:
            self._insert(list(records), **options)
        return self

    def update(self, pk_values: Any, updates: Any = None, *more: Any, **options: Any) -> Self:  # noqa: ANN401
        """Change columns of the row with a key; raise `NotFoundError` where there is none."""
        if more or options or not updates:
            super().update(pk_values, updates, *more, **options)
            return self
        key = pk_values if isinstance(pk_values, list | tuple) else [pk_values]
        sql = self._statement("UPDATE", tuple(updates))
        if self.db.conn.execute(sql, [*_stored(updates.values()), *key]).rowcount != 1:
            raise NotFoundError
        return self

    def _insert(self, records: list[Any], *, replace: bool = False, ignore: bool = False) -> None:
        if not records:
            return
        names = tuple(records[0])
        how = " OR REPLACE" if replace else " OR IGNORE" if ignore else ""
        sql = self._statement(f"INSERT{how}", names)
        rows = (_stored([record[name] for name in names]) for record in records)
        self.db.conn.executemany(sql, rows)

    def _statement(self, verb: str, names: tuple[str, ...]) -> str:
        """Return a statement with a place for each column, and of an update for the key."""
        assert isinstance(self.db, LedgerDatabase)
        known, what = self.db.statements, (self.name, verb, names)
        if what not in known:
            known[what] = self._made(verb, names)
        return known[what]

    def _made(self, verb: str, names: tuple[str, ...]) -> str:
        columns, table = [quote_identifier(name) for name in names], quote_identifier(self.name)
        if verb == "UPDATE":
            sets = ", ".join(f"{column} = ?" for column in columns)
            where = " AND ".join(f"{quote_identifier(name)} = ?" for name in self.pks)
            return f"UPDATE {table} SET {sets} WHERE {where}"  # noqa: S608 - our own names
        places = ", ".join("?" for _ in columns)
        return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({places})"


class LedgerDatabase(Database):
    """The ledger's database, or one in memory with tables of its entries."""

    def __init__(self, *where: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*where, **options)
        self.statements: dict[tuple[str, str, tuple[str, ...]], str] = {}
        """By table, verb and columns; to be cleared where a table is made in another way."""

    def table(self, table_name: str, **options: Any) -> LedgerTable:  # noqa: ANN401
        """Return a table that is there."""
        return LedgerTable(self, table_name, **{"strict": self.strict, **options})
