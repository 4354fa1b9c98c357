"""What is shown of the times of entries."""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import span

_SECOND_NS = 1_000_000_000


CALENDAR_TOLERANCE_NS = 60 * _SECOND_NS
"""By how much entries may be ahead of the calendar before anybody is told."""


def entries_ahead(by_ns: int) -> str:
    """Say that entries are ahead of the calendar, and what to do about it."""
    return (
        f"entries of the ledger are {span(by_ns)} ahead of this machine's calendar, and time goes "
        "on from there; if the calendar is right now: `fleetledger coordinator correct-clock`"
    )
