"""Reports of the operator's commands, each one model; its JSON Schema lies in `docs/json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

from typing_extensions import Self

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.verify import VerificationReport
from fleetledger.coordinator.reports import answers
from fleetledger.coordinator.reports.contributions import ClassFacts
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.reports.stages import StageFacts
from fleetledger.coordinator.topics.devices.choice import describe_tags
from fleetledger.coordinator.topics.models.queries import HELD, ListedModel, describe_canaries
from fleetledger.coordinator.topics.proxy.views import OldModelRow
from fleetledger.coordinator.topics.releases.views import ReleaseRow, WaitingRelease
from fleetledger.coordinator.topics.rounds.state import RoundFacts
from fleetledger.coordinator.topics.rounds.views import DeclinedRow
from fleetledger.coordinator.topics.stages.views import ReportRow
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime, iso_time
from fleetledger.schemas.wire import WireRange

ReplayState = Literal["equal", "within tolerance", "differs", "cannot be made again"]


class StagesReport(Report):
    """What `coordinator stages` shows."""

    lines_field: ClassVar[str | None] = "stages"
    titles: ClassVar[Mapping[str, str]] = {
        "stages": "Stages",
        "reported": "Reported since the last stage was opened",
    }
    stages: tuple[StageFacts, ...]
    reported: tuple[ReportRow, ...]
    """What devices have reported as new since the newest stage was opened."""


class RoundsReport(Report):
    """What `coordinator rounds` shows."""

    lines_field: ClassVar[str | None] = "rounds"
    titles: ClassVar[Mapping[str, str]] = {
        "rounds": "Rounds",
        "declined": "Gave no answer",
        "old_models": "Old models, by the round that gave them",
    }
    rounds: tuple[RoundFacts, ...]
    declined: tuple[DeclinedRow, ...]
    """Who gave no answer, and why."""
    stopped: str | None
    """Why the open stage asks for no more rounds; null where it does."""
    old_models: tuple[OldModelRow, ...]
    """What a proxy chose."""

    def below(self) -> Iterator[str]:
        """Return why no more rounds come, where they have stopped."""
        if self.stopped is not None:
            yield f"stopped: {self.stopped}"


class ClassesReport(Report):
    """What `class list` shows."""

    lines_field: ClassVar[str | None] = "classes"
    titles: ClassVar[Mapping[str, str]] = {"classes": "Classes"}
    classes: tuple[ClassFacts, ...]


class ListedDevice(Strict):
    """An admitted device, and what it is chosen by."""

    name: Annotated[str, Column("device")]
    state: Annotated[answers.DeviceState, Column("state")]
    tags: Annotated[dict[str, str], Column("tags", describe_tags)]
    """The operator's over the owner's."""
    active_version: Annotated[int | None, Column("model")]
    desired_version: int | None
    pinned: Annotated[int | None, Column("pinned to")]
    """The version that it runs whatever is desired of others."""
    agent_version: Annotated[str | None, Column("program")]
    """Version of the program that it runs."""
    wire: Annotated[WireRange | None, Column("wire", attrgetter("short"), only="wires_differ")]
    """Versions of the wire that it speaks."""
    hindered_since: Annotated[IsoTime | None, Column("hindered since", iso_time, sparse=True)]
    """Since when something keeps it from giving or getting, by its own words."""


class DevicesReport(Report):
    """What `device list` shows."""

    lines_field: ClassVar[str | None] = "devices"
    titles: ClassVar[Mapping[str, str]] = {"devices": "Devices", "retired": "Retired"}
    devices: tuple[ListedDevice, ...]
    """By name."""
    retired: tuple[answers.RetiredDevice, ...] = ()
    """Devices that were taken out, by name."""

    @property
    def wires_differ(self) -> bool:
        """Whether devices speak different versions of the wire, or one is not led."""
        known = {device.wire for device in self.devices} - {None}
        return len(known) > 1 or any(one.state in {"too old", "too new"} for one in self.devices)


class DeviceReport(Report):
    """What `device show` shows."""

    device: answers.FleetDevice

    def above(self) -> Iterator[str]:
        """Return it in sentences."""
        one = self.device
        since = one.online_since or one.absent_since
        yield f"{one.name}: {one.state}" + (f" since {iso_time(since)}" if since else "")
        if one.last_seen is not None:
            yield f"heard: {iso_time(one.last_seen)}"
        desired = "" if one.desired_version is None else f", to run {one.desired_version}"
        yield f"model: {one.active_version or 'none'}{desired}"
        yield f"program: {one.agent_version or 'not known yet'}"
        yield f"wire: {one.wire or 'not known yet'}"
        given = count_of(one.contributions, "contribution")
        yield f"gave: {given} of {count_of(one.samples, 'sample')}"
        if one.outbox is not None:
            yield f"outbox: {count_of(one.outbox, 'message')}"
        yield from (f"problem {problem}" for problem in one.problems)


class ModelsReport(Report):
    """What `model list` shows."""

    lines_field: ClassVar[str | None] = "models"
    titles: ClassVar[Mapping[str, str]] = {"models": "Models"}
    models: tuple[ListedModel, ...]
    held: bool
    """New ones wait for the operator."""
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""

    def below(self) -> Iterator[str]:
        """Return which versions are tried, and whether new ones are held."""
        yield from describe_canaries(self.canaries)
        if self.held:
            yield HELD


class ListedToken(Strict):
    """A bearer token of a program, without the token itself."""

    name: Annotated[str, Column("program")]
    role: Annotated[str, Column("role")]
    made: Annotated[IsoTime, Column("made", iso_time)]


class TokensReport(Report):
    """What `dashboard token --list` shows."""

    lines_field: ClassVar[str | None] = "tokens"
    titles: ClassVar[Mapping[str, str]] = {"tokens": "Tokens"}
    tokens: tuple[ListedToken, ...]


class RootReport(Report):
    """What `trust show` shows; every field of a root is null where none is published."""

    titles: ClassVar[Mapping[str, str]] = {"releases": "Releases"}
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
    devices: str | None = None
    """Digest of the roster of devices that members of masked cohorts are believed by."""
    expires: IsoTime | None = None
    """When nothing new is installed by it any more; null for never."""
    signed_by: tuple[str, ...] = ()
    missing: int = 0
    """Signatures of root keys that it lacks."""
    releases: tuple[ReleaseRow, ...] = ()
    """The newest ten, newest first."""
    waiting: tuple[WaitingRelease, ...] = ()
    """Versions that are desired and wait for a signature."""

    def above(self) -> Iterator[str]:
        """Return the root, field by field."""
        if self.version is None:
            yield "no root is published: models go out unsigned"
            return
        facts = {
            "fleet": self.fleet,
            "version": self.version,
            "digest": self.digest,
            "root keys": f"{self.threshold} of {', '.join(self.root_keys)}",
            "release keys": ", ".join(self.release_keys),
            "coordinator": ", ".join(self.coordinator_keys) or "none",
            "expires": "never" if self.expires is None else iso_time(self.expires),
            "signed by": ", ".join(self.signed_by) or "nobody",
        }
        if self.devices is not None:
            facts["devices"] = f"roster {self.devices[:12]}"
        if self.missing:
            facts["missing"] = f"signatures of root keys: {self.missing}"
        yield from (f"{name:>14}  {value}" for name, value in facts.items())
        if self.published and not self.releases:
            yield "Releases: none"

    def below(self) -> Iterator[str]:
        """Return what waits for a signature, and the command for it."""
        for push in self.waiting:
            sign = f"`fleetledger model sign {push.version} --key FILE`"
            yield f"model {push.version} for {push.whom} waits: {sign}"


class ShownEntry(Strict):
    """An entry of the ledger, in words."""

    index: int
    time: IsoTime
    kind: str
    actor: str
    device: str | None
    """The one that it is of, or about."""
    what: str

    @classmethod
    def of(cls, entry: Entry, **more: object) -> Self:
        """Return an entry as it is shown."""
        about = entry.body.get("device")
        return cls(
            index=entry.index,
            time=entry.time_ns,
            kind=entry.kind,
            actor=entry.actor,
            device=entry.device or (about if isinstance(about, str) else None),
            what=sentence_of(entry),
            **more,
        )


class EntriesReport(Report):
    """What `ledger tail` shows."""

    lines_field: ClassVar[str | None] = "entries"
    entries: tuple[ShownEntry, ...]

    def above(self) -> Iterator[str]:
        """Return an entry a line, as in a log: more come where they are followed."""
        yield from (f"{one.index}  {iso_time(one.time)}  {one.what}" for one in self.entries)


class EntryReport(ShownEntry, Report):
    """What `ledger show` shows."""

    time_ns: int
    leaf: str
    """SHA-256 of the entry as a leaf of the tree, in hexadecimal."""
    blobs: tuple[str, ...]
    body: dict[str, Any]

    @classmethod
    def whole(cls, entry: Entry) -> EntryReport:
        """Return all of an entry."""
        return cls.of(
            entry,
            time_ns=entry.time_ns,
            leaf=entry.leaf_hash.hex(),
            blobs=tuple(entry.blobs),
            body=dict(entry.body),
        )

    @property
    def body_text(self) -> str:
        """The body as JSON."""
        return json.dumps(self.body, indent=2, ensure_ascii=False)

    def above(self) -> Iterator[str]:
        """Return the entry in a sentence, field by field, and all of its body."""
        yield self.what
        yield from (f"{name:>7}  {getattr(self, name)}" for name in ("index", "kind", "actor"))
        yield f"   time  {iso_time(self.time)} ({self.time_ns} ns)"
        yield f" device  {self.device or '-'}"
        yield f"   leaf  {self.leaf}"
        yield from (f"   blob  {digest}" for digest in self.blobs)
        yield self.body_text


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

    def above(self) -> Iterator[str]:
        """Return what was proven, and by what."""
        if self.entry is not None:
            yield self.entry.what
        yield self.sentence


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
    sentence: str
    """The same as the rest, for people."""

    @classmethod
    def of(cls, found: VerificationReport) -> VerifyReport:
        """Return what a walk found."""
        wrong = found.mismatch
        return cls(
            fits=found.ok,
            entries=found.entries,
            checkpoints=found.checkpoints,
            blobs=found.blobs,
            snapshots=found.snapshots,
            pruned=found.pruned,
            root=found.root,
            mismatch=None if wrong is None else str(wrong),
            mismatch_index=None if wrong is None else wrong.index,
            sentence=str(found),
        )

    def above(self) -> Iterator[str]:
        """Return what was deleted on purpose, and how much fits."""
        yield from (f"pruned  {digest}" for digest in self.pruned)
        if self.fits:
            yield self.sentence
