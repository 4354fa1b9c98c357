"""The way to the ledger: read-only, while the coordinator writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.simulator.engines.recorder import Recorded


class LedgerSource:
    """Entries of the ledger in a coordinator's home, from any index on."""

    def __init__(self, home: Path) -> None:
        self._reader = LedgerReader.open_read_only(ledger_path(home))

    def __call__(self, index: int, end: int | None = None) -> Iterator[Recorded]:
        """Yield the entries from `index` on, before `end`, each checked against its leaf hash."""
        for entry in self._reader.entries(index, end):
            yield read_entry(entry.kind, entry.body), entry.device, entry.time_ns

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
