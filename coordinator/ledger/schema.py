"""Tables and guards of `ledger.db`.

    entry       append-only; `leaf` is the RFC 6962 leaf hash of the entry's bytes
    run         append-only; entries in a row that differ in few places, as `runs` lays them out
    checkpoint  append-only; size and root after each group; `note` is where a signature goes
    node        append-only; roots of complete subtrees at every fourth level, for proofs
    blob        small blobs themselves, and the marks of pruned ones

The guards stop mistakes, `INSERT OR REPLACE` included, because the only row that may come in is
the next one. They do not stop somebody who has the file; for that there is `verify`.
"""

from __future__ import annotations

import sqlite3

from fleetledger.coordinator.errors import LedgerError
from fleetledger.runtime.table_layout import lay_out, layout_of

LAYOUT = 2
REPLACES = "json_extract(body, '$.replaces')"
"""The entry that an entry says it replaces, in SQL."""
RUN_KINDS = ("contribution.accepted",)
"""Kinds whose entries may be in runs; SQL that asks `entry` for them finds some of them only."""
INLINE = "inline"
PRUNED = "pruned"


def _guard(table: str, refused: str) -> str:
    """Let rows come into `table` only where `refused` is false, and never change or leave."""
    return "".join(
        f"CREATE TRIGGER {table}_{event.lower()}_guard BEFORE {event} ON {table}"
        f" WHEN {condition} BEGIN"
        f" SELECT raise(ABORT, '{table} is append-only: {event} refused'); END;"
        for event, condition in (("INSERT", refused), ("UPDATE", "1"), ("DELETE", "1"))
    )


_NEXT = """max(coalesce((SELECT max(idx) + 1 FROM entry), 0),
    coalesce((SELECT first + count FROM run ORDER BY first DESC LIMIT 1), 0))"""
SIZE = f"SELECT {_NEXT}"
"""Number of entries, in SQL."""

_TABLES = f"""
CREATE TABLE entry (
    idx INTEGER PRIMARY KEY,
    time_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    device TEXT,
    body TEXT NOT NULL,
    blobs TEXT NOT NULL,
    leaf BLOB NOT NULL
) STRICT;
CREATE TABLE run (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    marks BLOB NOT NULL,
    names BLOB NOT NULL,
    texts BLOB NOT NULL,
    digests BLOB NOT NULL,
    leaves BLOB NOT NULL
) STRICT;
{_guard("entry", f"NEW.idx IS NOT {_NEXT}")}
{_guard("run", f"NEW.first IS NOT {_NEXT} OR NEW.count < 1")}
CREATE INDEX entry_status ON entry (json_extract(body, '$.status.version'))
    WHERE kind = 'device.model_status';
CREATE INDEX entry_compared ON entry (json_extract(body, '$.comparison.rollout'))
    WHERE kind = 'model.compared';
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    root BLOB NOT NULL,
    time_ns INTEGER NOT NULL,
    note TEXT
) STRICT;
{
    _guard(
        "checkpoint",
        f"NEW.size IS NOT {_NEXT} OR NEW.size <= (SELECT coalesce(max(size), 0) FROM checkpoint)",
    )
}
CREATE TABLE blob (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('{INLINE}', '{PRUNED}')),
    content BLOB,
    CHECK ((content IS NULL) = (state = '{PRUNED}'))
) STRICT;
CREATE TABLE node (
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID;
{
    _guard(
        "node",
        "NEW.position IS NOT"
        " (SELECT coalesce(max(position) + 1, 0) FROM node WHERE level = NEW.level)",
    )
}
CREATE INDEX entry_of_device ON entry (kind, device);
CREATE INDEX entry_of_version ON entry (json_extract(body, '$.evaluation.version'), device)
    WHERE kind = 'device.evaluated';
CREATE INDEX entry_replaces ON entry ({REPLACES}, kind) WHERE {REPLACES} IS NOT NULL;
"""  # noqa: S608 - constants


def make_tables(db: sqlite3.Connection, path: object) -> None:
    """Make the tables in a file that has none; raise `LedgerError` for another layout."""
    _refuse_other(lay_out(db, _TABLES, LAYOUT), path)


def check_layout(db: sqlite3.Connection, path: object) -> None:
    """Raise `LedgerError` unless the file is a ledger of this release's layout."""
    _refuse_other(layout_of(db), path)


def _refuse_other(found: int, path: object) -> None:
    if found == LAYOUT:
        return
    if not found:
        raise LedgerError(f"{path}: holds no ledger; start the coordinator, or give its --home")
    raise LedgerError(
        f"{path}: layout {found} of another release, this one reads {LAYOUT}; run the release that "
        "wrote it (docs/versions.md), or give another --home and begin anew"
    )
