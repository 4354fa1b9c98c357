"""Sentences of entries about time."""

from __future__ import annotations

from coordinator.core import entries
from coordinator.ledger.entries import Entry

_SECOND_NS = 1_000_000_000


CALENDAR_TOLERANCE_NS = 60 * _SECOND_NS
"""By how much entries may be ahead of the calendar before anybody is told."""


def entries_ahead(by_ns: int) -> str:
    """Say that entries are ahead of the calendar, and what to do about it."""
    return (
        f"entries of the ledger are {span(by_ns)} ahead of this machine's calendar, and time goes "
        "on from there; if the calendar is right now: `fleetledger coordinator correct-clock`"
    )


def clock_corrected(body: entries.ClockCorrected, _: Entry) -> str:
    """Say by how much the calendar was wrong."""
    if body.by_ns == 0:
        return "The operator found the calendar right; devices take its time from here on."
    where = "ahead" if body.by_ns > 0 else "behind"
    return (
        f"The calendar was {span(body.by_ns)} {where}, as entries before show; from here on it is "
        "right."
    )


def devices_silent(body: entries.DevicesSilent, _: Entry) -> str:
    """Say who is silent."""
    return (
        f"Nothing that can be believed came for {span(body.seconds * _SECOND_NS)} from "
        f"{', '.join(body.devices)}."
    )


def devices_heard(body: entries.DevicesHeard, _: Entry) -> str:
    """Say who is heard again."""
    return f"Heard again: {', '.join(body.devices)}."


def span(nanoseconds: int) -> str:
    """Return how long that is, in the unit that suits it."""
    seconds = abs(nanoseconds) / _SECOND_NS
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.3g} s"
