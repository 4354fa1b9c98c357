"""What the state knows of the calendar."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ClockState:
    """How the operator has set the calendar right."""

    corrections: int = 0
    """How often."""
    set_back_ns: int = 0
    """By how much in all: times of later entries are so much less than they would have been."""
