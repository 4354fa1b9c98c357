"""What becomes of rollouts, and what devices measured of a candidate beside their active model."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.rollouts import (
    WHOLE,
    GroupNumber,
    Mode,
    ModelComparison,
    RolloutNumber,
    Share,
)
from fleetledger.schemas.values import DeviceId, Digest


class RolloutPlanned(EntryBody):
    """A version is to go out group by group."""

    kind: ClassVar[str] = "rollout.planned"
    rollout: RolloutNumber
    version: int = Field(ge=1)
    former: int | None = Field(default=None, ge=1)
    """What everybody was to run then, and what it goes back to."""
    classes: int = Field(default=0, ge=0)
    """How many that one knows."""
    devices: int = Field(default=0, ge=0)
    """How many it is about when it is planned."""
    salt: str
    """Of the places of devices."""
    plan: RolloutPlan
    automatic: bool = False
    """Planned because the fleet has learned it."""
    judges: Share | None = Field(default=None, exclude_if=is_absent)
    """Devices that had no part in it, where others had one."""


class RolloutApproved(EntryBody):
    """A person lets a group go."""

    kind: ClassVar[str] = "rollout.approved"
    rollout: RolloutNumber
    group: GroupNumber


class RolloutStarted(EntryBody):
    """A planned rollout begins."""

    kind: ClassVar[str] = "rollout.started"
    rollout: RolloutNumber
    begins_ns: int | None = Field(default=None, ge=0, lt=2**63, exclude_if=is_absent)
    """Not before then, in nanoseconds since 1970; None for at once."""


class GroupOpened(EntryBody):
    """Devices of a group get the candidate, to measure it or to run it."""

    kind: ClassVar[str] = "rollout.group_opened"
    rollout: RolloutNumber
    group: GroupNumber
    mode: Mode
    below: int = Field(ge=1, le=WHOLE)
    """Devices below this place belong to it, or to a group before it."""


class ModelCompared(EntryBody):
    """A device measured a candidate beside another model on the same images."""

    kind: ClassVar[str] = "model.compared"
    comparison: ModelComparison

    @property
    def content(self) -> Digest:
        """Digest of what was measured, by which a repeat is known."""
        return Digest.of(canonical_json(self.model_dump(mode="json")))


class RolloutUnreached(EntryBody):
    """Devices of a group are away; it does without them."""

    kind: ClassVar[str] = "rollout.unreached"
    rollout: RolloutNumber
    group: GroupNumber
    devices: tuple[DeviceId, ...]


class RolloutMeasured(EntryBody):
    """A verdict on a phase of a group."""

    kind: ClassVar[str] = "rollout.measured"
    rollout: RolloutNumber
    group: GroupNumber
    mode: Mode
    outcome: Outcome
    members: int = Field(ge=0)
    """Devices of the group and of those before it, reached or not."""
    gates: tuple[GateFinding, ...]
    entries: tuple[int, ...]
    """Ledger indices of what it was made of, comparisons and statuses, in order."""
    deadline: bool = False
    """Whether it was time, and not the last device, that asked for it."""
    reason: str = ""
    """In one sentence."""


class RolloutPaused(EntryBody):
    """Nothing further goes out until a person says so."""

    kind: ClassVar[str] = "rollout.paused"
    rollout: RolloutNumber
    reason: str


class RolloutResumed(EntryBody):
    """A person lets it go on."""

    kind: ClassVar[str] = "rollout.resumed"
    rollout: RolloutNumber
    reason: str = ""


class RolloutRolledBack(EntryBody):
    """Every device goes back to the former version."""

    kind: ClassVar[str] = "rollout.rolled_back"
    rollout: RolloutNumber
    to: int | None = Field(default=None, ge=1)
    """None where there was none."""
    reason: str


class RolloutFinished(EntryBody):
    """All groups have passed."""

    kind: ClassVar[str] = "rollout.finished"
    rollout: RolloutNumber


class RolloutAborted(EntryBody):
    """A person ended it, or something else took its place; devices stay as they are."""

    kind: ClassVar[str] = "rollout.aborted"
    rollout: RolloutNumber
    reason: str
    by: int | None = Field(default=None, ge=1)
    """The rollout that supersedes it."""
