"""What a decision changes.

A durable change says what it makes of the records, once: it is applied to a draft of them, whose
rows the store writes before the records themselves change. The pieces of one run (`PresenceState`,
`EnrollingState`, `Scanning`, `CountingState`, `Training`, `Detecting`, `Sending`, `Files`,
`ModelProgress`, `ModelWait`, `Listening`, `OwnReports`) change by being replaced: the new piece is
itself the change, and the store leaves it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fleetledger.device_agent.core.draft import SINGLE, Draft
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.records import (
    CountingState,
    Detecting,
    EnrollingState,
    Files,
    Listening,
    ModelProgress,
    ModelWait,
    OwnReports,
    PresenceState,
    Scanning,
    Sending,
    Training,
)
from fleetledger.device_agent.core.state import AgentRecords


class Durable(ABC):
    """A change that outlives the program: written down with others in one transaction."""

    @abstractmethod
    def __call__(self, draft: Draft) -> None:
        """Make of the records what they are from here on."""

    def says(self) -> Line | None:
        """Return what the device's log says of it; None for what nobody asks about."""
        return None


@dataclass(frozen=True, init=False)
class Put(Durable):
    """New single values of the records, by their names."""

    line: Line | None
    values: dict[str, object]

    def __init__(self, line: Line | None = None, /, **values: object) -> None:
        """Raise `TypeError` for a name that no single value of the records has."""
        if strange := values.keys() - SINGLE:
            raise TypeError(f"records: no single value is named {', '.join(sorted(strange))}")
        object.__setattr__(self, "line", line)
        object.__setattr__(self, "values", values)

    def __call__(self, draft: Draft) -> None:
        for name, value in self.values.items():
            setattr(draft, name, value)

    def says(self) -> Line | None:
        """Return the line that was given."""
        return self.line


def drafted(records: AgentRecords, changes: Iterable[Durable]) -> Draft:
    """Return the draft of all changes; the records become so with its `merge`."""
    draft = Draft.of(records)
    for change in changes:
        change(draft)
    return draft


Piece: TypeAlias = (
    PresenceState
    | EnrollingState
    | Scanning
    | CountingState
    | Training
    | Detecting
    | Sending
    | Files
    | ModelProgress
    | ModelWait
    | Listening
    | OwnReports
)
Change: TypeAlias = Durable | Piece
