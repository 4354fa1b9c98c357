"""Tables of `agent.db`: small named steps that the database itself records.

fact         one row per thing of which there is one: installation, assignment, desired model …
part         the newest revision of every part
image        images that are counted, per lineage (frozen model)
unusable     images that do not decode
outbox       letters without a receipt, in order; small payloads with them
nothing      stages for which the device said that it has nothing
answered_round  rounds that the device has answered, or has nothing for
dead_letter  letters that were refused, with the reason
detector     one row: the batches that new images are compared with
measured     images that were measured and are not counted
reported_class  class names that a transition has told the coordinator
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

MIGRATIONS = Migrations("agent")


@MIGRATIONS()
def create_fact(db: Database) -> None:
    """Make the table of single facts, as JSON."""
    db.execute("CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")


@MIGRATIONS()
def create_part(db: Database) -> None:
    """Make the tables of parts and of the images that are in them."""
    db.execute(
        """CREATE TABLE part (
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('waiting', 'accepted', 'refused', 'withdrawn')),
            lineage TEXT,
            payload TEXT,
            PRIMARY KEY (stage, part)
        ) STRICT"""
    )
    db.execute(
        """CREATE TABLE image (
            lineage TEXT NOT NULL,
            digest TEXT NOT NULL,
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            class_name TEXT NOT NULL,
            PRIMARY KEY (lineage, digest)
        ) STRICT"""
    )
    db.execute("CREATE INDEX image_part ON image (stage, part)")


@MIGRATIONS()
def create_unusable(db: Database) -> None:
    """Make the table of images that do not decode."""
    db.execute("CREATE TABLE unusable (digest TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT")


@MIGRATIONS()
def create_outbox(db: Database) -> None:
    """Make the tables of letters: waiting, said 'nothing', refused."""
    db.execute(
        """CREATE TABLE outbox (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            about TEXT NOT NULL CHECK (about IN ('contribution', 'withdrawal', 'nothing')),
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            body TEXT NOT NULL,
            payload BLOB,
            UNIQUE (about, stage, part)
        ) STRICT"""
    )
    db.execute("CREATE TABLE empty_stage (stage INTEGER PRIMARY KEY) STRICT")
    db.execute(
        """CREATE TABLE dead_letter (
            id INTEGER PRIMARY KEY,
            about TEXT NOT NULL,
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            body TEXT NOT NULL,
            reason TEXT NOT NULL,
            time_ns INTEGER NOT NULL
        ) STRICT"""
    )


@MIGRATIONS()
def let_letters_be_transitions(db: Database) -> None:
    """Allow one more kind of letter; SQLite changes a check only with the whole table."""
    db.execute("ALTER TABLE outbox RENAME TO outbox_before")
    db.execute(
        """CREATE TABLE outbox (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            about TEXT NOT NULL
                CHECK (about IN ('contribution', 'withdrawal', 'nothing', 'transition')),
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            body TEXT NOT NULL,
            payload BLOB,
            UNIQUE (about, stage, part)
        ) STRICT"""
    )
    db.execute("INSERT INTO outbox SELECT * FROM outbox_before ORDER BY position")
    db.execute("DROP TABLE outbox_before")


@MIGRATIONS()
def create_detector(db: Database) -> None:
    """Make the tables of the detector: its state, what was measured, what was reported."""
    db.execute(
        "CREATE TABLE detector (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL) STRICT"
    )
    db.execute("CREATE TABLE measured (digest TEXT PRIMARY KEY) STRICT")
    db.execute("CREATE TABLE reported_class (name TEXT PRIMARY KEY) STRICT")


@MIGRATIONS()
def create_answered_round(db: Database) -> None:
    """Make the table of answered rounds."""
    db.execute("CREATE TABLE answered_round (number INTEGER PRIMARY KEY) STRICT")


@MIGRATIONS()
def let_letters_be_gradients(db: Database) -> None:
    """Allow letters to the proxy; SQLite changes a check only with the whole table."""
    db.execute("ALTER TABLE outbox RENAME TO outbox_before")
    db.execute(
        """CREATE TABLE outbox (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            about TEXT NOT NULL
                CHECK (about IN
                    ('contribution', 'withdrawal', 'nothing', 'transition', 'gradients')),
            stage INTEGER NOT NULL,
            part INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            body TEXT NOT NULL,
            payload BLOB,
            UNIQUE (about, stage, part)
        ) STRICT"""
    )
    db.execute("INSERT INTO outbox SELECT * FROM outbox_before ORDER BY position")
    db.execute("DROP TABLE outbox_before")
