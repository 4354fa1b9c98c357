"""What happened to a device: its newest entries in sentences, and what is not in the ledger."""

from __future__ import annotations

from fleetledger.coordinator.ledger.describe import explain
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reading.sentences import SENTENCES
from fleetledger.schemas.message import Strict
from fleetledger.schemas.times import IsoTime

_OF_DEVICE = """
SELECT idx FROM entry
WHERE device = :device OR (device IS NULL AND instr(body, :quoted))
ORDER BY idx DESC LIMIT :limit
"""


class Happened(Strict):
    """An entry, or what the coordinator saw, in a sentence."""

    index: int | None = None
    """Of the entry; None of what is not in the ledger."""
    time: IsoTime
    sentence: str


def timeline(ledger: LedgerReader, device: str, limit: int) -> tuple[Happened, ...]:
    """Return the newest entries of a device, or about it, newest first."""
    values = {"device": device, "quoted": f'"{device}"', "limit": limit}
    found = [ledger.entry(index) for (index,) in ledger.db.execute(_OF_DEVICE, values).fetchall()]
    return tuple(
        Happened(index=one.index, time=one.time_ns, sentence=explain(one, SENTENCES))
        for one in found
    )
