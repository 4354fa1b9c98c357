"""Lineages for whoever asks with SQL."""

from __future__ import annotations

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS, VariantSet, VariantsMade
from fleetledger.schemas.values import Digest


def _begun(db: Database, entry: Entry) -> None:
    body = entry.body
    row = {"idx": entry.index, "kind": entry.kind, "name": body["name"], "method": body["method"]}
    db.table("lineage").insert(row)


LINEAGE = Projection(
    "lineage",
    {"idx": int, "kind": str, "name": str, "method": str},
    ("idx",),
    {body.kind: _begun for body in LINEAGE_KINDS},
)


def current_method(ledger: LedgerReader) -> str | None:
    """Return the method that the fleet learns with now; None before the first lineage."""
    row = ledger.db.execute("SELECT method FROM lineage ORDER BY idx DESC LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def newest_variants(ledger: LedgerReader, lineage: Digest) -> VariantSet | None:
    """Return the variants of the frozen model that leads, as the ledger says last."""
    found = ledger.db.execute(
        "SELECT max(idx) FROM entry WHERE kind = ? AND idx > (SELECT max(idx) FROM lineage)",
        [VariantsMade.kind],
    ).fetchone()
    if found is None or found[0] is None:
        return None
    made = VariantsMade.model_validate(ledger.entry(int(found[0])).body)
    return made if made.lineage == lineage else None
