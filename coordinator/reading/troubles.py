"""Entries that need a person, or did: a table over all topics, for whoever asks."""

from __future__ import annotations

from pydantic import ValidationError
from sqlite_utils import Database

from fleetledger.coordinator.core.state import KINDS
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import LedgerReader


def _note(db: Database, entry: Entry) -> None:
    kind = KINDS[entry.kind]
    try:
        trouble = kind.is_trouble(kind.body.model_validate(entry.body))
    except ValidationError:
        return  # written by another version of this program
    if trouble:
        db.table("trouble").insert({"idx": entry.index, "kind": entry.kind})


TROUBLE = Projection(
    "trouble",
    {"idx": int, "kind": str},
    ("idx",),
    {name: _note for name, kind in KINDS.items() if kind.trouble is not False},
)


def troubles(ledger: LedgerReader, before: int, limit: int) -> list[Entry]:
    """Return the newest entries below an index that need a person, or did, newest first."""
    rows = ledger.db.execute(
        "SELECT idx FROM trouble WHERE idx < ? ORDER BY idx DESC LIMIT ?", [before, limit]
    )
    return [ledger.entry(index) for (index,) in rows.fetchall()]


def trouble_count(ledger: LedgerReader) -> int:
    """Return how many entries there are that need a person, or did."""
    return int(ledger.db.execute("SELECT count(*) FROM trouble").fetchone()[0])
