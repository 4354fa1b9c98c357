"""What devices of light agents remember, in one file of the fleet, for whoever resumes the run.

A memory is written before the coordinator commits what the device said: the ledger never holds
what its device does not know of, which it would withdraw. The file outlives the program, not a
loss of power. Records are rows as in the agent's own store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.home.store.rows import RowName, changed_rows, message_name, records_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.simulator.virtual.slots import KeptSlots, MemorySlots

_TABLES = """
CREATE TABLE IF NOT EXISTS device (name TEXT PRIMARY KEY, kept TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    device TEXT NOT NULL,
    field TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (device, field, key)
);
CREATE TABLE IF NOT EXISTS attached (
    device TEXT NOT NULL,
    message TEXT NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (device, message)
);
"""
_WRITES = (
    "DELETE FROM record WHERE device = ? AND field = ? AND key = ?",
    "INSERT INTO record (device, field, key, value) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (device, field, key) DO UPDATE SET value = excluded.value",
    "DELETE FROM attached WHERE device = ? AND message = ?",
    "INSERT OR REPLACE INTO attached (device, message, payload) VALUES (?, ?, ?)",
    "INSERT OR REPLACE INTO device (name, kept) VALUES (?, ?)",
)


class _Kept(Strict):
    """What of a memory is no record."""

    slots: KeptSlots
    files: tuple[Digest, ...]
    boots: tuple[BootId, ...]


@dataclass
class DeviceMemory:
    """What of a device outlasts its runs."""

    records: AgentRecords = field(default_factory=AgentRecords)
    payloads: dict[OutboxKey, bytes] = field(default_factory=dict)
    """Of messages in the outbox."""
    slots: MemorySlots = field(default_factory=MemorySlots)
    files: frozenset[Digest] = frozenset()
    boots: tuple[BootId, ...] = ()
    """Its runs, newest first."""
    _gone: set[RowName] = field(default_factory=set)
    """Rows that the file has and the records do not."""
    _put: dict[RowName, str] = field(default_factory=dict)
    """Rows that the file does not have as they are, in their order."""
    _answered: set[OutboxKey] = field(default_factory=set)
    """Messages whose payload the file need not have."""
    _attached: set[OutboxKey] = field(default_factory=set)
    """Messages whose payload the file does not have."""

    def take(self, draft: Draft) -> None:
        """Bring a draft into the records."""
        gone, put = changed_rows(draft, self.records)
        for name in gone:
            self._put.pop(name, None)
        self._gone.update(gone)
        self._put |= {(name, key): value for name, key, value in put}
        for message in draft.outbox.gone - draft.outbox.put.keys():
            if self.payloads.pop(message, None) is not None:
                self._answered.add(message)
        self.payloads |= draft.attached
        self._attached |= draft.attached.keys()
        draft.merge(self.records)

    def changes(self, name: DeviceId) -> tuple[list[tuple[str | bytes, ...]], ...]:
        """Return what is to be written since the last time, for each statement."""
        kept = _Kept(slots=self.slots.kept, files=tuple(sorted(self.files)), boots=self.boots)
        changes: tuple[list[tuple[str | bytes, ...]], ...] = (
            [(name, *row) for row in self._gone],
            [(name, *row, value) for row, value in self._put.items()],
            [(name, message_name(key)) for key in self._answered],
            [
                (name, message_name(key), self.payloads[key])
                for key in self._attached & self.payloads.keys()
            ],
            [(name, kept.model_dump_json())],
        )
        for written in (self._gone, self._put, self._answered, self._attached):
            written.clear()
        return changes


class MemoryFile:
    """Memories by device, in the SQLite file at `path`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_TABLES)

    def read(self, device: DeviceId) -> DeviceMemory:
        """Return what a device remembers."""
        found = self._db.execute("SELECT kept FROM device WHERE name = ?", [device]).fetchone()
        if found is None:
            return DeviceMemory()
        kept = _Kept.model_validate_json(found[0])
        query = "SELECT field, key, value FROM record WHERE device = ? ORDER BY id"
        records = records_of(self._db.execute(query, [device]))
        query = "SELECT message, payload FROM attached WHERE device = ?"
        payloads: dict[str, bytes] = dict(self._db.execute(query, [device]).fetchall())
        named = {key: payloads.get(message_name(key)) for key in records.outbox}
        attached = {key: payload for key, payload in named.items() if payload is not None}
        return DeviceMemory(
            records, attached, MemorySlots(kept.slots), frozenset(kept.files), kept.boots
        )

    def held(self) -> list[Digest]:
        """Return the files by which devices remember, one for each of them."""
        rows = self._db.execute("SELECT value FROM record WHERE field = 'memory'").fetchall()
        return [Digest(value) for (value,) in rows]

    def write(self, memories: Mapping[DeviceId, DeviceMemory]) -> None:
        """Write what has changed in what some devices remember, all or nothing."""
        changes = [memory.changes(name) for name, memory in memories.items()]
        self._db.execute("BEGIN")
        for statement, rows in zip(_WRITES, zip(*changes, strict=True), strict=True):
            self._db.executemany(statement, [row for of_one in rows for row in of_one])
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._db.close()
