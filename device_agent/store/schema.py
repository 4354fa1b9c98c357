"""Tables of `agent.db`: small named steps that the database itself records.

installation  one row: the name of this installation
run           the newest runs of this installation, in their order
record        what the agent must not lose, as rows that follow from the types (`store.rows`)
attached      small payloads of messages that have no receipt
dead_letter   messages that were refused, with the reason
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
    """Make the tables of messages: waiting, said 'nothing', refused."""
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
    """Allow one more kind of message; SQLite changes a check only with the whole table."""
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
    """Allow messages to the proxy; SQLite changes a check only with the whole table."""
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


@MIGRATIONS()
def let_records_be_rows(db: Database) -> None:
    """Bring a table for each thing into one of rows, and drop them."""
    db.execute("CREATE TABLE installation (name TEXT NOT NULL) STRICT")
    db.execute(
        """CREATE TABLE record (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            field TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            UNIQUE (field, key)
        ) STRICT"""
    )
    db.execute("CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL) STRICT")
    db.execute("CREATE TABLE attached (letter TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT")
    for rows in _FORMER_ROWS:
        db.execute(f"INSERT INTO record (field, key, value) {rows}")
    db.execute(
        f"INSERT INTO attached SELECT {_LETTER}, payload FROM outbox WHERE payload IS NOT NULL"  # noqa: S608
    )
    db.execute(
        "INSERT INTO installation SELECT value ->> '$' FROM fact WHERE name = 'installation'"
    )
    db.execute(
        "INSERT INTO run (boot) SELECT run.value FROM fact, json_each(fact.value) AS run"
        " WHERE fact.name = 'runs' ORDER BY run.key DESC"
    )
    for table in _FORMER_TABLES:
        db.execute(f"DROP TABLE {table}")


_LETTER = """printf('["%s",{"stage":%d,"part":%d}]', about, stage, part)"""
_FORMER_ROWS = (
    """SELECT name, '', value FROM fact WHERE name IN ('assignment', 'desired', 'acted', 'status',
        'evaluation', 'release', 'root', 'seen', 'silent', 'next_part', 'transitions',
        'exemplars')""",
    """SELECT name, '', value ->> '$' FROM fact
        WHERE name IN ('memory', 'memory_lineage', 'ledger_boot')""",
    """SELECT name, '', json_object('action', value -> 0, 'seconds', value -> 1,
        'time_ns', value -> 2) FROM fact WHERE name = 'waited'""",
    """SELECT name, '', json_object('boot', value ->> 0, 'ledger_size', value -> 1,
        'corrections', value -> 2, 'time_ns', value -> 3) FROM fact WHERE name = 'heard'""",
    """SELECT 'look', '', json_object('number', json(number.value), 'observation', json(look.value))
        FROM fact AS look, fact AS number
        WHERE look.name = 'look' AND number.name = 'look_round'""",
    """SELECT 'heights', height.key, height.value FROM fact, json_each(fact.value) AS height
        WHERE fact.name = 'heights'""",
    "SELECT 'dead_letters', '', count(*) FROM dead_letter HAVING count(*) > 0",
    """SELECT 'parts', printf('{"part":%d,"stage":%d}', part, stage),
        json_object('revision', revision, 'state', state, 'lineage', lineage, 'payload', payload)
        FROM part ORDER BY rowid""",
    """SELECT 'counted', lineage || ' ' || digest,
        json_object('key', json_object('stage', stage, 'part', part), 'class_name', class_name)
        FROM image ORDER BY rowid""",
    "SELECT 'unusable', digest, reason FROM unusable ORDER BY rowid",
    "SELECT 'nothing', stage, '' FROM empty_stage",
    "SELECT 'answered', number, '' FROM answered_round",
    "SELECT 'detector', '', state FROM detector",
    "SELECT 'measured', digest, '' FROM measured ORDER BY rowid",
    "SELECT 'reported', name, '' FROM reported_class ORDER BY rowid",
    f"SELECT 'outbox', {_LETTER}, json_array(revision, about, json(body))"  # noqa: S608
    " FROM outbox ORDER BY position",
)
_FORMER_TABLES = (
    "fact",
    "part",
    "image",
    "unusable",
    "empty_stage",
    "answered_round",
    "detector",
    "measured",
    "reported_class",
    "outbox",
)
