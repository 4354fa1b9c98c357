"""What happened to a device: its newest entries in sentences, and what is not in the ledger."""

from __future__ import annotations

from fleetledger.coordinator.ledger.describe import explain
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.sentences import SENTENCES
from fleetledger.schemas.message import Strict
from fleetledger.schemas.times import IsoTime


class Happened(Strict):
    """An entry, or what the coordinator saw, in a sentence."""

    index: int | None = None
    """Of the entry; None of what is not in the ledger."""
    time: IsoTime
    sentence: str


def timeline(ledger: LedgerReader, device: str, limit: int) -> tuple[Happened, ...]:
    """Return the newest entries of a device, or about it, newest first."""
    return tuple(
        Happened(index=one.index, time=one.time_ns, sentence=explain(one, SENTENCES))
        for one in ledger.newest(limit, about=device)
    )
