"""Changes that a decision makes.

A durable change writes to a draft of the records, whose rows the store writes before the records
themselves change. Each is made by a function beside its rule. The pieces of one run
(`PresenceState`, `EnrollingState`, `Scanning`, `CountingState`, `Training`, `CohortWork`,
`Detecting`, `Sending`, `Files`, `ModelProgress`, `ModelWait`, `Listening`, `OwnReports`) change by
being replaced: the new piece is itself the change, and the store leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fleetledger.device_agent.core.draft import SINGLE, Draft
from fleetledger.device_agent.core.log_words import Line, because, warning
from fleetledger.device_agent.core.records import (
    CohortWork,
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
from fleetledger.schemas.models import ModelStatus


@dataclass(frozen=True)
class Durable:
    """A change that outlives the program: written down with others in one transaction."""

    write: Callable[[Draft], None]
    """Makes of a draft what the records are from here on."""
    line: Line | None = None
    """What the device's log says of it; None for what nobody asks about."""


class Put(Durable):
    """New single values of the records, by their names."""

    def __init__(self, line: Line | None = None, /, **values: object) -> None:
        """Raise `TypeError` for a name that no single value of the records has."""
        if strange := values.keys() - SINGLE:
            raise TypeError(f"records: no single value is named {', '.join(sorted(strange))}")
        super().__init__(_Values(values), line)


@dataclass(frozen=True)
class _Values:
    values: dict[str, object]

    def __call__(self, draft: Draft) -> None:
        for name, value in self.values.items():
            setattr(draft, name, value)


def drafted(records: AgentRecords, changes: Iterable[Durable]) -> Draft:
    """Return the draft of all changes; the records become so with its `merge`."""
    draft = Draft.of(records)
    for change in changes:
        change.write(draft)
    return draft


def action_ended(action: int | None, status: ModelStatus) -> Durable:
    """Bring a desired model to an end, and report what came of it.

    `action` is None for news of a model that was taken before, without a new action.
    """
    version, former = status.version, status.previous_version
    fields = {"version": version, "index": action}
    if status.state == "active":
        text = f"runs model {version} from here on" + (f"; before it {former}" if former else "")
        line = Line("model.switched", text, {**fields, "previous": former})
    elif status.state == "shadowing":
        line = Line("model.shadowed", f"keeps model {version} beside the one that runs", fields)
    else:
        event, came = "model.refused", "was not taken"
        if status.state == "rolled_back":
            event, came = "model.rolled_back", "was rolled back"
        text = f"model {version} {came}{because(status.reason)}"
        line = warning(event, text, **fields, reason=status.reason)
    ended = {} if action is None else {"acted": action}
    return Put(line, status=status, **ended)


Piece: TypeAlias = (
    PresenceState
    | EnrollingState
    | Scanning
    | CountingState
    | Training
    | CohortWork
    | Detecting
    | Sending
    | Files
    | ModelProgress
    | ModelWait
    | Listening
    | OwnReports
)
Change: TypeAlias = Durable | Piece
