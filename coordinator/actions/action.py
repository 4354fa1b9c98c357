"""What an action is: what it is called, what it does, what it asks for, and its command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.ledger.reader import LedgerReader

Values = Mapping[str, str]
"""What was filled in, by field; what was left empty is absent."""


@dataclass(frozen=True)
class ActionField:
    """One thing that an action asks for."""

    name: str
    label: str
    help: str = ""
    required: bool = True
    """Whether it has to be filled in."""
    several: bool = False
    """Words, with spaces or commas between them."""
    flag: bool = False
    """Yes, or nothing."""
    choices: tuple[str, ...] = ()
    """What it can be; anything where there are none."""


@dataclass(frozen=True)
class Action:
    """Something that an operator may do."""

    name: str
    """In addresses."""
    title: str
    """What is done, as on a button."""
    effect: str
    """What comes of it, in a sentence."""
    command: Callable[[Values], Command]
    """Makes it; raises `ValidationError` or `FleetledgerError` where a value is wrong."""
    line: Callable[[Values], tuple[str, ...]]
    """The same as words of the command line, after `fleetledger`."""
    fields: tuple[ActionField, ...] = ()
    preview_lines: Callable[[Path, LedgerReader, Values], Iterable[str]] = lambda *_: ()
    """What would happen on which devices, by a coordinator's home and its ledger, in sentences;
    raises as `command` does."""
    asks: bool = False
    """Whether that is said, and asked about, before it is done."""
    may_ask: bool = False
    """Whether the coordinator may ask about it first; the value `sure` says that it is meant."""
    as_rollout: bool = False
    """Whether it sends a version out, which a rollout can do in its place."""
    then: Callable[[Path], Iterable[str]] = lambda _: ()
    """What follows in the coordinator's home once it is done; returns lines to show."""

    def command_line(self, values: Values) -> str:
        """Return what does the same on the command line; what is missing is in capitals."""
        filled = {field.name: field.name.upper() for field in self.fields if field.required}
        return " ".join(("fleetledger", *map(quote, self.line(filled | dict(values)))))


DEVICE = ActionField("device", "Device")
REASON = ActionField("reason", "Reason", "It stays in the ledger.")


def words(text: str) -> tuple[str, ...]:
    """Return words that have spaces or commas between them, or each a line of its own."""
    if "\n" in text:
        return tuple(filter(None, text.split("\n")))
    return tuple(text.replace(",", " ").split())
