"""Blobs that are marked as deleted, held against the entries that say so.

A mark beside the ledger can be made by whoever writes there; an entry cannot.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.schemas.values import Digest


class SaysPruned(Protocol):
    """Follows entries, and tells which missing blobs none of them explains."""

    def apply(self, entry: Entry, missing: Collection[Digest]) -> None:
        """Take in the next entry, of whose blobs these are missing."""

    def unexplained(self) -> Digest | None:
        """Return a missing blob of which no entry says that it was deleted; None without one."""


def unexplained(
    ledger: LedgerReader, marked: Collection[Digest], prunings: SaysPruned, start: int = 0
) -> Digest | None:
    """Return a blob that is marked as deleted and that no entry from `start` on says to be.

    `marked` are named by entries from there on. The entries are read only where there are any.
    """
    if marked:
        for entry in ledger.entries(start):
            prunings.apply(entry, [digest for digest in entry.blobs if digest in marked])
    return prunings.unexplained()
