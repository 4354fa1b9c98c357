"""What the operator's commands show, each as one model; its JSON Schema lies in `docs/json`."""

from __future__ import annotations

from typing import Any, ClassVar

from coordinator.topics.classes.views import ClassRow
from coordinator.topics.models.views import ModelRow
from coordinator.topics.proxy.views import OldModelRow
from coordinator.topics.rounds.views import DeclinedRow, RoundRow
from coordinator.topics.stages.views import ReportRow, StageRow
from schemas.message import Strict
from schemas.shown import Report
from schemas.times import IsoTime


class StagesReport(Report):
    """What `coordinator stages` shows."""

    lines_field: ClassVar[str | None] = "stages"
    stages: tuple[StageRow, ...]
    reported: tuple[ReportRow, ...]
    """What devices have reported as new since the newest stage was opened."""


class RoundsReport(Report):
    """What `coordinator rounds` shows."""

    lines_field: ClassVar[str | None] = "rounds"
    rounds: tuple[RoundRow, ...]
    declined: tuple[DeclinedRow, ...]
    """Who gave no answer, and why."""
    stopped: str | None
    """Why the open stage asks for no more rounds; null where it does."""
    old_models: tuple[OldModelRow, ...]
    """What a proxy chose."""


class ClassesReport(Report):
    """What `class list` shows."""

    lines_field: ClassVar[str | None] = "classes"
    classes: tuple[ClassRow, ...]


class ListedModel(Strict):
    """A version of the model."""

    version: int
    state: str
    waits_for_release: bool
    class_names: tuple[str, ...]
    contributions: int
    running_on: int
    """Number of devices."""
    descends: tuple[str, ...]
    """Devices of whose retracted answers to rounds it descends."""

    @classmethod
    def of(cls, row: ModelRow, *, waits: bool) -> ListedModel:
        """Return a row of the table."""
        return cls(
            version=row.version,
            state=row.state,
            waits_for_release=waits,
            class_names=row.class_names,
            contributions=row.contributions,
            running_on=row.running_on,
            descends=row.descends,
        )


class ModelsReport(Report):
    """What `model list` shows."""

    lines_field: ClassVar[str | None] = "models"
    models: tuple[ListedModel, ...]
    held: bool
    """New ones wait for the operator."""
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""


class ShownEntry(Strict):
    """An entry of the ledger, in words."""

    index: int
    time: IsoTime
    kind: str
    actor: str
    device: str | None
    what: str


class EntriesReport(Report):
    """What `ledger tail` shows."""

    lines_field: ClassVar[str | None] = "entries"
    entries: tuple[ShownEntry, ...]


class EntryReport(Report):
    """What `ledger show` shows."""

    index: int
    time: IsoTime
    time_ns: int
    kind: str
    actor: str
    device: str | None
    what: str
    leaf: str
    """SHA-256 of the entry as a leaf of the tree, in hexadecimal."""
    blobs: tuple[str, ...]
    body: dict[str, Any]


class VerifyReport(Report):
    """What `ledger verify` shows."""

    fits: bool
    entries: int
    checkpoints: int
    blobs: int
    pruned: tuple[str, ...]
    """Blobs that were deleted on purpose."""
    root: str
    mismatch: str | None
    """The first thing that does not fit, in words."""
    mismatch_index: int | None
    """The entry concerned."""
