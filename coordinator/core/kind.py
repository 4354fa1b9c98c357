"""What a topic is: kinds of entry, how its part of the state follows them, what devices are told.

A topic is a value, made where its kinds are defined. Nothing is registered by being imported:
`coordinator.core.state` lists the topics, and that list is the order in which they take an entry.

The laws, which the tests hold:

- a kind belongs to one topic; topics that stand later may follow it;
- a topic's functions change its own part alone; they read the parts before it, which have taken
  the entry already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.schemas.values import DeviceId

TOLD = logging.DEBUG
"""The level of what the operator is told at the same time in words that say what to do."""

Part = TypeVar("Part")
"""A topic's part of the state."""
Body = TypeVar("Body", bound=EntryBody)


class Notification(NamedTuple):
    """Message that devices get again because of an entry."""

    what: Literal[
        "assignment",
        "round",
        "desired",
        "offered",
        "born",
        "released",
        "everything",
        "installations",
        "retraction",
        "revocation",
        "retirement",
    ]
    devices: tuple[DeviceId, ...] | None = None
    """None for all that it is about; for `born` the one that made the entry."""
    action: int | None = None
    """Of what was released: those alone that are told what this entry desires."""


def notify_all_of_assignment(_: EntryBody) -> Notification:
    """Return the assignment, for every device."""
    return Notification("assignment")


@dataclass(frozen=True)
class Follows(Generic[Part, Body]):
    """How a part of the state changes with a kind of entry, of this topic or of one before it."""

    body: type[Body]
    change: Callable[[Part, Body, EntryContext], None]


@dataclass(frozen=True)
class Kind(Follows[Part, Body]):
    """A kind of entry of this topic."""

    notifies: Callable[[Body], Notification] | None = None
    """Message that devices get again; None for none."""
    reorders: bool = False
    """Whether the proxy has another order after it, or none."""
    worth: int | Callable[[Body], int] = logging.INFO
    """The level of its line in the log."""
    trouble: bool | str = False
    """Whether it needs a person, or did; where only some do, a condition in SQL on its `body`."""

    def level(self, body: Body) -> int:
        """Return the level of an entry's line in the log."""
        return self.worth if isinstance(self.worth, int) else self.worth(body)


Change = Callable[[Any, EntryContext], None]
"""Takes an entry into one part of one state; the body is of the type it is listed under."""


@dataclass(frozen=True)
class LedgerTopic(Generic[Part]):
    """A topic: its kinds, and the kinds of others that its part of the state follows."""

    name: str
    kinds: tuple[Kind[Part, Any], ...]
    follows: tuple[Follows[Part, Any], ...] = ()

    def on(self, part: Part) -> Iterator[tuple[type[EntryBody], Change]]:
        """Yield each kind that changes `part`, with the function that does it."""
        for item in (*self.kinds, *self.follows):
            yield item.body, partial(item.change, part)


def changes_nothing(_part: object, _body: EntryBody, _at: EntryContext) -> None:
    """Take in an entry that is for people, and changes nothing that is decided."""
