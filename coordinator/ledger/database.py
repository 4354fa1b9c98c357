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
        sets = ", ".join(f"{quote_identifier(name)} = ?" for name in updates)
        where = " AND ".join(f"{quote_identifier(name)} = ?" for name in self._key())
        sql = f"UPDATE {quote_identifier(self.name)} SET {sets} WHERE {where}"  # noqa: S608 - our own names
        values = [*map(jsonify_if_needed, updates.values()), *key]
        if self.db.conn.execute(sql, values).rowcount != 1:
            raise NotFoundError
        return self

    def _insert(self, records: list[Any], *, replace: bool = False, ignore: bool = False) -> None:
        if not records:
            return
        names = list(records[0])
        how = "OR REPLACE " if replace else "OR IGNORE " if ignore else ""
        sql = (
            f"INSERT {how}INTO {quote_identifier(self.name)}"  # noqa: S608 - our own names
            f" ({', '.join(map(quote_identifier, names))})"
            f" VALUES ({', '.join('?' for _ in names)})"
        )
        rows = ([jsonify_if_needed(record[name]) for name in names] for record in records)
        self.db.conn.executemany(sql, rows)

    def _key(self) -> list[str]:
        assert isinstance(self.db, LedgerDatabase)
        keys = self.db.keys
        if self.name not in keys:
            keys[self.name] = self.pks
        return keys[self.name]


class LedgerDatabase(Database):
    """The ledger's database, or one in memory with tables of its entries."""

    def __init__(self, *where: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*where, **options)
        self.keys: dict[str, list[str]] = {}
        """Columns of the keys of tables; to be cleared where one is made in another way."""

    def table(self, table_name: str, **options: Any) -> LedgerTable:  # noqa: ANN401
        """Return a table that is there."""
        return LedgerTable(self, table_name, **{"strict": self.strict, **options})
