"""Tables of `agent.db`.

installation  one row: the name of this installation
run           the newest runs of this installation, in their order
record        what the agent must not lose, as rows that follow from the types (`store.rows`)
attached      small payloads of messages that have no receipt
dead_letter   messages that were refused, with the reason
"""

from __future__ import annotations

LAYOUT = 1
TABLES = """
CREATE TABLE installation (name TEXT NOT NULL) STRICT;
CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL) STRICT;
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    field TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (field, key)
) STRICT;
CREATE TABLE attached (letter TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT;
CREATE TABLE dead_letter (
    id INTEGER PRIMARY KEY,
    about TEXT NOT NULL,
    stage INTEGER NOT NULL,
    part INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    reason TEXT NOT NULL,
    time_ns INTEGER NOT NULL
) STRICT;
"""
