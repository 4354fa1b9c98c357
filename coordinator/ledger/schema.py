"""Tables and guards of `ledger.db`: small named steps that the database itself records.

    entry       append-only; `leaf` is the RFC 6962 leaf hash of the entry's bytes
    checkpoint  append-only; size and root after each group; `note` is where a signature goes
    node        append-only; roots of complete subtrees at every fourth level, for proofs, through
                all shards
    blob        small blobs themselves, and the marks of pruned ones
    projection  how each projection's table was declared when it was last built

The guards stop mistakes, `INSERT OR REPLACE` included, because the only row that may come in is
the next one. They do not stop somebody who has the file; for that there is `verify`.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.shards import SHARD_INDEX
from fleetledger.schemas.proofs.shards import SHARD_BEGAN

MIGRATIONS = Migrations("ledger")

INLINE = "inline"
PRUNED = "pruned"


@MIGRATIONS()
def create_entry(db: Database) -> None:
    """Make the table of entries with their leaf hashes."""
    db.execute(
        """CREATE TABLE entry (
            idx INTEGER PRIMARY KEY,
            time_ns INTEGER NOT NULL,
            kind TEXT NOT NULL,
            actor TEXT NOT NULL,
            device TEXT,
            body TEXT NOT NULL,
            blobs TEXT NOT NULL,
            leaf BLOB NOT NULL
        ) STRICT"""
    )
    _guard(db, "entry", "NEW.idx IS NOT (SELECT coalesce(max(idx) + 1, 0) FROM entry)")


@MIGRATIONS()
def create_checkpoint(db: Database) -> None:
    """Make the table of sizes and roots after each group."""
    db.execute(
        """CREATE TABLE checkpoint (
            size INTEGER PRIMARY KEY,
            root BLOB NOT NULL,
            time_ns INTEGER NOT NULL,
            note TEXT
        ) STRICT"""
    )
    _guard(
        db,
        "checkpoint",
        "NEW.size IS NOT (SELECT max(idx) + 1 FROM entry)"
        " OR NEW.size <= (SELECT max(size) FROM checkpoint)",
    )


@MIGRATIONS()
def create_blob(db: Database) -> None:
    """Make the table of small blobs and of marks for those that retention deleted."""
    db.execute(
        f"""CREATE TABLE blob (
            digest TEXT PRIMARY KEY,
            size INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('{INLINE}', '{PRUNED}')),
            content BLOB,
            CHECK ((content IS NULL) = (state = '{PRUNED}'))
        ) STRICT"""
    )


@MIGRATIONS()
def create_node(db: Database) -> None:
    """Make the table of the tree's inner nodes; see `coordinator.ledger.nodes`."""
    db.execute(
        """CREATE TABLE node (
            level INTEGER NOT NULL,
            position INTEGER NOT NULL,
            hash BLOB NOT NULL,
            PRIMARY KEY (level, position)
        ) STRICT, WITHOUT ROWID"""
    )
    _guard(
        db,
        "node",
        "NEW.position IS NOT"
        " (SELECT coalesce(max(position) + 1, 0) FROM node WHERE level = NEW.level)",
    )


@MIGRATIONS()
def create_projection(db: Database) -> None:
    """Make the table of declarations that the projections' tables were built by."""
    db.execute("CREATE TABLE projection (name TEXT PRIMARY KEY, declaration TEXT NOT NULL) STRICT")


@MIGRATIONS()
def index_shards(db: Database) -> None:
    """Let the first entries of the log's shards be found without reading all entries."""
    db.execute(f"CREATE INDEX {SHARD_INDEX} ON entry (idx) WHERE kind = '{SHARD_BEGAN}'")


_ONLY_QUICKER = {"index_shards"}
"""Steps without which a ledger of an older program is read all the same."""


def _guard(db: Database, table: str, refused: str) -> None:
    """Let rows come into `table` only where `refused` is false, and never change or leave."""
    for event, condition in (("INSERT", refused), ("UPDATE", "1"), ("DELETE", "1")):
        db.execute(
            f"CREATE TRIGGER {table}_{event.lower()}_guard BEFORE {event} ON {table}"
            f" WHEN {condition} BEGIN"
            f" SELECT raise(ABORT, '{table} is append-only: {event} refused'); END"
        )


def check_version(db: Database, path: object) -> None:
    """Raise `LedgerError` unless the database has exactly this program's steps."""
    done = {step.name for step in MIGRATIONS.applied(db)}
    known = {step.name for step in MIGRATIONS.pending(Database(memory=True))}
    if done - known:
        raise LedgerError(
            f"{path}: written by a newer program ({min(done - known)}); update this one"
        )
    if known - done - _ONLY_QUICKER:
        raise LedgerError(
            f"{path}: no ledger, or one of an older program; start the coordinator once"
        )
