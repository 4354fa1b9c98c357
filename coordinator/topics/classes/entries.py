"""Names of classes: named, renamed, merged."""

from __future__ import annotations

import logging
from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Kind, LedgerTopic, notify_all_of_assignment
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.schemas.values import ClassName


class ClassNamed(EntryBody):
    """The registry gave a class its index."""

    kind: ClassVar[str] = "class.named"
    name: ClassName
    index: int = Field(ge=0)

    def say(self, at: EntryContext) -> str:
        return f"Class {self.name} has index {self.index}, for good."


def _name(classes: ClassRegistry, body: ClassNamed, at: EntryContext) -> None:
    classes.name(body.name, body.index)
    classes.changed = at.index


class ClassRenamed(EntryBody):
    """A class has a new name; the old one stays as an alias."""

    kind: ClassVar[str] = "class.renamed"
    old: ClassName
    new: ClassName

    def say(self, at: EntryContext) -> str:
        return f"Class {self.old} is called {self.new}; the old name still works on the devices."


def _rename(classes: ClassRegistry, body: ClassRenamed, at: EntryContext) -> None:
    classes.rename(body.old, body.new)
    classes.changed = at.index


class ClassMerged(EntryBody):
    """Two names mean one class: `source` becomes an alias of `target`."""

    kind: ClassVar[str] = "class.merged"
    source: ClassName
    target: ClassName

    def say(self, at: EntryContext) -> str:
        return (
            f"{self.source} is another name of class {self.target}; their samples count together."
        )


def _merge(classes: ClassRegistry, body: ClassMerged, at: EntryContext) -> None:
    classes.merge(body.source, body.target)
    classes.changed = at.index


CLASSES = LedgerTopic(
    "classes",
    kinds=(
        # Nobody is told: the stage that it is named for follows in the same decision, and a device
        # that heard of the name first would count its images for the stage before.
        Kind(ClassNamed, _name, worth=logging.DEBUG),
        Kind(ClassRenamed, _rename, notify_all_of_assignment),
        Kind(ClassMerged, _merge, notify_all_of_assignment),
    ),
)
