"""The operator's command about the calendar."""

from __future__ import annotations

from typing import Literal

from fleetledger.runtime.strict import Strict


class CorrectClock(Strict):
    """Let entries have the times of this machine's calendar again, which is right."""

    verb: Literal["correct-clock"] = "correct-clock"


ClockCommand = CorrectClock
