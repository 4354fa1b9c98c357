"""What the operator's commands show, each as one model; its JSON Schema lies in `docs/json`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from fleetledger.coordinator.reading.answers import (
    DeviceState,
    FleetDevice,
    RetiredDevice,
    WaitingRelease,
)
from fleetledger.coordinator.topics.classes.views import ClassRow
from fleetledger.coordinator.topics.models.queries import ListedModel
from fleetledger.coordinator.topics.proxy.views import OldModelRow
from fleetledger.coordinator.topics.rounds.views import DeclinedRow, RoundRow
from fleetledger.coordinator.topics.stages.views import ReportRow, StageRow
from fleetledger.schemas.message import Strict
from fleetledger.schemas.shown import Report
from fleetledger.schemas.times import IsoTime
from fleetledger.schemas.wire import WireRange

ReplayState = Literal["equal", "within tolerance", "differs", "cannot be made again"]


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


class ListedDevice(Strict):
    """An admitted device, and what it is chosen by."""

    name: str
    state: DeviceState
    tags: dict[str, str]
    """The operator's over the owner's."""
    active_version: int | None
    desired_version: int | None
    pinned: int | None
    """The version that it runs whatever is desired of others."""
    agent_version: str | None
    """Version of the program that it runs."""
    wire: WireRange | None
    """Versions of the wire that it speaks."""
    hindered_since: IsoTime | None
    """Since when something keeps it from giving or getting, by its own words."""

    @classmethod
    def of(cls, device: FleetDevice) -> ListedDevice:
        """Return a row of the table."""
        return cls(
            name=device.name,
            state=device.state,
            tags=device.tags,
            active_version=device.active_version,
            desired_version=device.desired_version,
            pinned=device.pinned,
            agent_version=device.agent_version,
            wire=device.wire,
            hindered_since=device.hindered_since,
        )


class DevicesReport(Report):
    """What `device list` shows."""

    lines_field: ClassVar[str | None] = "devices"
    devices: tuple[ListedDevice, ...]
    """By name."""
    retired: tuple[RetiredDevice, ...] = ()
    """Devices that were taken out, by name."""


class DeviceReport(Report):
    """What `device show` shows."""

    device: FleetDevice


class ModelsReport(Report):
    """What `model list` shows."""

    lines_field: ClassVar[str | None] = "models"
    models: tuple[ListedModel, ...]
    held: bool
    """New ones wait for the operator."""
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""


class ListedToken(Strict):
    """A bearer token of a program, without the token itself."""

    name: str
    role: str
    made: IsoTime


class TokensReport(Report):
    """What `dashboard token --list` shows."""

    lines_field: ClassVar[str | None] = "tokens"
    tokens: tuple[ListedToken, ...]


class ShownRelease(Strict):
    """A release, as it was signed."""

    number: int
    version: int
    """Of the model."""
    key: str
    """Who signed it."""
    index: int
    """The entry with it."""


class RootReport(Report):
    """What `trust show` shows; every field of a root is null where none is published."""

    published: bool
    """Whether it is the published root that is shown, not a file."""
    fleet: str | None = None
    version: int | None = None
    digest: str | None = None
    root_keys: tuple[str, ...] = ()
    threshold: int | None = None
    """Root keys that must agree."""
    release_keys: tuple[str, ...] = ()
    coordinator_keys: tuple[str, ...] = ()
    expires: IsoTime | None = None
    """When nothing new is installed by it any more; null for never."""
    signed_by: tuple[str, ...] = ()
    missing: int = 0
    """Signatures of root keys that it lacks."""
    releases: tuple[ShownRelease, ...] = ()
    """The newest ten, newest first."""
    waiting: tuple[WaitingRelease, ...] = ()
    """Versions that are desired and wait for a signature."""


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


class ReplayedResult(Strict):
    """Something that was made in the past, and what came of making it again."""

    index: int
    """The entry by which it was made."""
    what: str
    state: ReplayState
    detail: str


class ReplayReport(Report):
    """What `ledger replay` shows."""

    lines_field: ClassVar[str | None] = "made"
    made: tuple[ReplayedResult, ...]
    """In the order of the ledger."""
    counts: dict[ReplayState, int]
    """Of these, how many by state."""


class AuditReport(Report):
    """What `ledger audit` shows of an export or a proof that holds."""

    fleet: str
    size: int
    """Entries under the coordinator's signature."""
    root: str
    """Of the tree of these, as the checkpoint says it."""
    kinds: dict[str, int]
    """Of an export: number of entries by kind."""
    entry: ShownEntry | None
    """Of a proof: what was proven."""
    sentence: str
    """The same as the rest, for people."""


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
    snapshots: int = 0
    """Kept states that are what the entries give."""
    shards: int = 1
    """Shards of the log that the entries are in."""
