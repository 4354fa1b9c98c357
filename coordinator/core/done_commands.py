"""Commands of the operator that were carried out, known again after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Kind, LedgerTopic

KEPT_ANSWERS = 1000
"""Newest answers that are kept. A ticket is asked for again only where a crash came between the
entry and the inbox, which concerns the commands of one group."""


class CommandDone(EntryBody):
    """A command of the operator was carried out: it stands with the entries that it led to."""

    kind: ClassVar[str] = "command.done"
    ticket: str
    """Names the command in the operator's inbox."""
    text: str
    """The answer."""

    def say(self, at: EntryContext) -> str:
        return f"A command of the operator was carried out: {self.text}."


@dataclass
class DoneState:
    """What the operator was answered."""

    answers: dict[str, str] = field(default_factory=dict)
    """Tickets of the last commands that were carried out, and the answers, oldest first."""


def _answer(done: DoneState, body: CommandDone, _at: EntryContext) -> None:
    done.answers[body.ticket] = body.text
    if len(done.answers) > KEPT_ANSWERS:
        del done.answers[next(iter(done.answers))]


DONE = LedgerTopic("done", kinds=(Kind(CommandDone, _answer),))
