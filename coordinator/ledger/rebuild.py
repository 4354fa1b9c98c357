"""Making the projections' tables again from the entries, and saying what differed before.

`compare` works beside a running coordinator and changes nothing. `rebuild` becomes the writer; it
is for tables that somebody edited, since the coordinator keeps them in step by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import Mismatch
from fleetledger.coordinator.ledger.projections import Projections
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.counted import count_of


@dataclass(frozen=True)
class RebuildReport:
    """What a rebuild from the entries gives, and every row that was different."""

    entries: int
    rows: Mapping[str, int]
    """Rows of every table, as rebuilt."""
    differences: tuple[Mismatch, ...]

    def __str__(self) -> str:
        """Return one sentence for the operator."""
        rows = sum(self.rows.values())
        made = (
            f"{count_of(len(self.rows), 'table')} with {count_of(rows, 'row')} from "
            f"{count_of(self.entries, 'entry', 'entries')}"
        )
        if not self.differences:
            return f"{made}; nothing differed"
        differed = count_of(len(self.differences), "row")
        return f"{made}; {differed} differed, first {self.differences[0]}"


def compare(ledger: LedgerReader) -> RebuildReport:
    """Make the tables again in a scratch database and compare them row for row.

    Raises `LedgerCorruptError` where an entry does not fit its leaf.
    """
    tables = ledger.projections
    with ledger.snapshot(), tables.made_from(ledger.entries()) as fresh:
        rows = {table.name: fresh.table(table.name).count for table in tables.tables}
        return RebuildReport(ledger.size, rows, tuple(tables.differences(ledger.db, fresh)))


def rebuild(path: Path, projections: Projections) -> RebuildReport:
    """Compare, then make the tables of the ledger at `path` again.

    Raises `LedgerLockedError` while another process writes, and what `Ledger.open` raises.
    """
    with Ledger.open(path, projections) as ledger:
        report = compare(ledger)
        ledger.rebuild_projections()
        return report
