"""Who is there: births, deaths and heartbeats of devices; births and deaths of the coordinator.

These are read before two programs have agreed on a version of the wire, so readers ignore fields
that they do not know. Birth and death of a device are retained on one topic and carry the boot id.
So a death (the will of a lost connection) is ignored when a later boot has been born.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, FailFast, Field, PlainSerializer

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import HeldPart
from fleetledger.schemas.message import Items, Message, is_absent
from fleetledger.schemas.tags import Tags
from fleetledger.schemas.values import BootId, Digest
from fleetledger.schemas.wire import WireRange

MAX_FORMER_RUNS = 20
"""Earlier runs of an installation that a birth names, newest first."""
MAX_HELD_PARTS = 500
"""Parts named in one welcome; a device with more gets several, numbered."""

MAX_FEATURES = 64

FeatureName = Annotated[str, Field(min_length=1, max_length=40)]


class PresenceMessage(Message):
    """A message that older programs read too: they ignore fields that they do not know."""

    model_config = ConfigDict(extra="ignore")


class Capabilities(Strict):
    """What a device can run; the coordinator invites it only to that."""

    model_config = ConfigDict(extra="ignore")

    agent_version: str = Field(max_length=40)
    python: str = Field(max_length=20)
    machine: str = Field(max_length=80)
    features: Annotated[frozenset[FeatureName], FailFast(), PlainSerializer(sorted)] = Field(
        max_length=MAX_FEATURES
    )
    """Names such as `numpy` or `onnxruntime`; a method's card lists what each phase needs. Others,
    such as `my-lab@1a2b3c4d5e6f`, name distributions with methods or networks, and their code."""
    provider: str | None = Field(default=None, max_length=60)
    """The ONNX Runtime execution provider in use."""
    memory_mib: int = Field(ge=0)


class SeenCheckpoint(Strict):
    """The newest state of the ledger that a device has seen; a fork shows where two differ."""

    size: int = Field(ge=0)
    root: Digest


class Birth(PresenceMessage):
    """A device has connected; retained."""

    kind: ClassVar[str] = "birth"
    installation: BootId
    """Made once per installation: a reinstalled agent is told apart from a restarted one."""
    capabilities: Capabilities
    active_version: int | None = Field(default=None, ge=1)
    active_manifest: Digest | None = None
    outbox_length: int = Field(default=0, ge=0)
    seen_checkpoint: SeenCheckpoint | None = None
    formers: Items[BootId] = Field(default=(), max_length=MAX_FORMER_RUNS)
    """Runs of this installation before this one, newest first: a copy of an installation has the
    same name, and goes on from another run than the original does."""
    tags: Tags = Field(default={}, exclude_if=is_absent)
    """What the device's owner says of it."""
    wire: WireRange = WireRange()
    """Versions of the wire that the device speaks; version 1 alone where it is left out."""


class Death(PresenceMessage):
    """A device has gone; retained. The envelope's boot id says which run of it."""

    kind: ClassVar[str] = "death"
    reason: str = Field(default="connection lost", max_length=200)


class Heartbeat(PresenceMessage):
    """Counters of a running agent, every few seconds; never stored in the ledger.

    It also says what the device has heard, so that the coordinator repeats what a broker lost.
    """

    kind: ClassVar[str] = "heartbeat"
    welcomed: bool
    """Whether the coordinator's answer to this boot's birth has arrived."""
    assignment_action: int | None = Field(default=None, ge=0)
    """Action number of the assignment that the device has."""
    desired_action: int | None = Field(default=None, ge=0)
    """Action number of the desired model that the device has."""
    held: Digest | None = None
    """`held_digest` of the parts that the device believes to be held; left out before a welcome."""
    outbox_length: int = Field(ge=0)
    waiting_images: int = Field(ge=0)
    seen_size: int | None = Field(default=None, ge=0)
    """Entries of the ledger that this device has seen last, where it checks proofs."""
    resident_bytes: int = Field(ge=0)
    bytes_up: int = Field(ge=0)
    bytes_down: int = Field(ge=0)


class Welcome(Message):
    """The coordinator's answer to a birth: what it holds from this device."""

    kind: ClassVar[str] = "welcome"
    boot: BootId
    """The boot that this answers."""
    held: Items[HeldPart] = Field(default=(), max_length=MAX_HELD_PARTS)
    more: bool = False
    """Another welcome with further parts follows."""
    next_part: int = Field(ge=0)
    """A part number that this device has never used, and all above it are free too."""


MAX_BESIDE = 8
"""Other coordinators that one names."""


class CoordinatorBirth(PresenceMessage):
    """The coordinator serves; retained. Devices hold back while it is away."""

    kind: ClassVar[str] = "coordinator.birth"
    ledger_size: int = Field(ge=0)
    wire: WireRange = WireRange()
    """Versions of the wire that it speaks; a device without one of them gives and gets nothing."""
    spread_seconds: int | None = Field(default=None, ge=1, le=3600, exclude_if=is_absent)
    """Over how long devices are to spread their births, where there are many of them: after this
    one, and after a broker that has forgotten them. No device beats more often than once in that
    time. Left out in smaller fleets."""
    beside: Items[BootId] = Field(default=(), max_length=MAX_BESIDE, exclude_if=is_absent)
    """Other coordinators of this fleet that are alive: devices give nothing until one is left."""
    heard: Items[BootId] = Field(default=(), max_length=MAX_BESIDE, exclude_if=is_absent)
    """Other runs of which something came, perhaps late: one that is alive answers by a birth."""


class CoordinatorHeartbeat(PresenceMessage):
    """The coordinator is there, told every hour: its ledger's size and its clock, as signed.

    A device with its key knows by it that nothing is kept back, and that it is not earlier.
    """

    kind: ClassVar[str] = "coordinator.heartbeat"
    ledger_size: int = Field(ge=0, lt=2**63)
    time_ns: int = Field(ge=0, lt=2**63)
    """Nanoseconds since 1970 by the coordinator's calendar."""
    corrections: int = Field(default=0, ge=0, lt=2**31)
    """How often its operator has set the calendar right; after that an earlier time counts."""


class CoordinatorDeath(PresenceMessage):
    """The coordinator has gone; retained."""

    kind: ClassVar[str] = "coordinator.death"
    reason: str = Field(default="connection lost", max_length=200)
