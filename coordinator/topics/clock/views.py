"""What is shown of the times of entries."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.phrases import span
from fleetledger.coordinator.ledger.reader import ledger_of

_SECOND_NS = 1_000_000_000


CALENDAR_TOLERANCE_NS = 60 * _SECOND_NS
"""By how much entries may be ahead of the calendar before anybody is told."""


def entries_ahead(by_ns: int) -> str:
    """Say that entries are ahead of the calendar, and what to do about it."""
    return (
        f"entries of the ledger are {span(by_ns)} ahead of this machine's calendar, and time goes "
        "on from there; if the calendar is right now: `fleetledger coordinator correct-clock`"
    )


def last_entry_ns(home: Path) -> int | None:
    """Return the time of the newest entry; None where there is none."""
    with ledger_of(home) as ledger:
        return ledger.entry(ledger.size - 1).time_ns if ledger.size else None
