"""Names of classes: named, renamed, merged."""

from __future__ import annotations

import logging
from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import (
    EntryContext,
    Kind,
    LedgerTopic,
    notify_all_of_assignment,
)
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.schemas.values import ClassName


class ClassNamed(EntryBody):
    """The registry gave a class its index."""

    kind: ClassVar[str] = "class.named"
    name: ClassName
    index: int = Field(ge=0)


def _name(classes: ClassRegistry, body: ClassNamed, at: EntryContext) -> None:
    classes.name(body.name, body.index)
    classes.changed = at.index


def _say_named(body: ClassNamed, _: EntryContext) -> str:
    return f"Class {body.name} has index {body.index}, for good."


class ClassRenamed(EntryBody):
    """A class has a new name; the old one stays as an alias."""

    kind: ClassVar[str] = "class.renamed"
    old: ClassName
    new: ClassName


def _rename(classes: ClassRegistry, body: ClassRenamed, at: EntryContext) -> None:
    classes.rename(body.old, body.new)
    classes.changed = at.index


def _say_renamed(body: ClassRenamed, _: EntryContext) -> str:
    return f"Class {body.old} is called {body.new}; the old name still works on the devices."


class ClassMerged(EntryBody):
    """Two names mean one class: `source` becomes an alias of `target`."""

    kind: ClassVar[str] = "class.merged"
    source: ClassName
    target: ClassName


def _merge(classes: ClassRegistry, body: ClassMerged, at: EntryContext) -> None:
    classes.merge(body.source, body.target)
    classes.changed = at.index


def _say_merged(body: ClassMerged, _: EntryContext) -> str:
    return f"{body.source} is another name of class {body.target}; their samples count together."


CLASSES = LedgerTopic(
    "classes",
    kinds=(
        # Nobody is told: the stage that it is named for follows in the same decision, and a device
        # that heard of the name first would count its images for the stage before.
        Kind(ClassNamed, _name, _say_named, worth=logging.DEBUG),
        Kind(ClassRenamed, _rename, _say_renamed, notify_all_of_assignment),
        Kind(ClassMerged, _merge, _say_merged, notify_all_of_assignment),
    ),
)
