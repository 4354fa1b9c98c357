"""Arrangement shared by the ledger's tests: drafts, a filled ledger, tampering with the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES, Ledger
from fleetledger.schemas.values import DeviceId, Digest

SMALL = b"small blob"
LARGE = bytes(range(256)) * (SMALL_BLOB_BYTES // 128)


def draft(number: int, *, kind: str = "contribution.accepted", **more: object) -> EntryDraft:
    """A draft like the coordinator's: JSON of mixed types, a device, no blobs."""
    body = {"number": number, "samples": {"Katze": 3, "hund": number}, "share": 0.25, "note": "é"}
    body["part"] = {"round": None}
    device = DeviceId(f"device-{number % 3}")
    return EntryDraft(kind, str(device), body, device=device, **more)  # type: ignore[arg-type]


def open_store(folder: Path) -> BlobStore:
    return BlobStore(folder / "blobs")


def fill(folder: Path) -> Path:
    """Write a ledger of 12 entries in 3 groups, with a small and a large blob; return its path."""
    path = folder / "ledger.db"
    with Ledger.open(path, clock=lambda: 1_000) as ledger:
        blobs = Blobs(ledger, open_store(folder))
        small = blobs.stage([SMALL, LARGE])
        named = (Digest.of(SMALL), Digest.of(LARGE))
        ledger.append([draft(n) for n in range(4)])
        ledger.append([draft(4), draft(5, blobs=named), draft(6), draft(7)], small)
        ledger.append([draft(8), draft(9), draft(10, kind="contribution.withdrawn"), draft(11)])
    return path


@contextmanager
def tampering(path: Path) -> Iterator[sqlite3.Connection]:
    """Edit the file as somebody who has it can: without guards."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    connection.commit()
    connection.close()


def entry_row(connection: sqlite3.Connection, index: int) -> list[object]:
    return list(connection.execute("SELECT * FROM entry WHERE idx = ?", (index,)).fetchone())
