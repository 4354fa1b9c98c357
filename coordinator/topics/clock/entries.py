"""The kind of entry that sets the calendar right."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Kind, LedgerTopic
from fleetledger.coordinator.core.phrases import span
from fleetledger.coordinator.topics.clock.state import ClockState


class ClockCorrected(EntryBody):
    """The operator says that entries so far have the times of a wrong calendar.

    The times of later entries are by the right one, and what waits goes on waiting as long as it
    would have.
    """

    kind: ClassVar[str] = "clock.corrected"
    by_ns: int = Field(gt=-(2**63), lt=2**63)
    """Nanoseconds by which time is set back; below 0 for a calendar that was behind."""

    def say(self, at: EntryContext) -> str:
        if self.by_ns == 0:
            return "The operator found the calendar right; devices take its time from here on."
        where = "ahead" if self.by_ns > 0 else "behind"
        return (
            f"The calendar was {span(self.by_ns)} {where}, as entries before show; from here on it "
            "is right."
        )


def _correct(clock: ClockState, body: ClockCorrected, _at: EntryContext) -> None:
    clock.corrections += 1
    clock.set_back_ns += body.by_ns


CLOCK = LedgerTopic("clock", kinds=(Kind(ClockCorrected, _correct),))
