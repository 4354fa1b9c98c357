"""Which commands of the operator were carried out: known again after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from coordinator.core.entry import EntryBody
from coordinator.core.kind import Kind, LedgerTopic, Place


class CommandDone(EntryBody):
    """A command of the operator was carried out: it stands with the entries that it led to."""

    kind: ClassVar[str] = "command.done"
    ticket: str
    """Names the command in the operator's inbox."""
    text: str
    """The answer."""


@dataclass
class DoneState:
    """What the operator was answered."""

    answers: dict[str, str] = field(default_factory=dict)
    """Tickets of commands that were carried out, and the answers."""


def _answer(done: DoneState, body: CommandDone, _at: Place) -> None:
    done.answers[body.ticket] = body.text


def _say_done(body: CommandDone, _: Place) -> str:
    return f"A command of the operator was carried out: {body.text}."


DONE = LedgerTopic("done", kinds=(Kind(CommandDone, _answer, _say_done),))
