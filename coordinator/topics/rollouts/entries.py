"""What becomes of rollouts, and what devices measured of a candidate beside their active model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from coordinator.core.entry import EntryBody
from coordinator.core.kind import Kind, LedgerTopic, Place
from coordinator.topics.rollouts.plan import RolloutPlan
from coordinator.topics.rollouts.state import RolloutsState
from coordinator.topics.stages.state import Reported
from schemas.canonical import canonical_json
from schemas.message import Strict
from schemas.rollouts import WHOLE, GroupNumber, Mode, ModelComparison, RolloutNumber
from schemas.values import ClassName, DeviceId, Digest

Outcome = Literal["pass", "fail", "inconclusive"]
GateName = Literal[
    "retention",
    "no_class_lost",
    "gain",
    "entropy",
    "agreement",
    "latency",
    "memory",
    "thermal",
    "health",
]


class GateFinding(Strict):
    """What one gate says, with the figures that it goes by."""

    gate: GateName
    outcome: Outcome
    value: float | None = None
    """What is compared with the limit, such as log e; None where nothing was measured."""
    limit: float | None = None
    counts: tuple[int, ...] = ()
    """What the value was made of, such as images that only the active, only the candidate had
    right."""
    of_class: ClassName | None = None
    """The class that decides."""
    alone: DeviceId | None = None
    """The device without which it would not fail: then a person decides."""
    too_little: bool = False
    """Whether it is inconclusive because too little was measured."""
    text: str = Field(max_length=1000)
    """The same for people."""


class RolloutPlanned(EntryBody):
    """A version is to go out group by group."""

    kind: ClassVar[str] = "rollout.planned"
    rollout: RolloutNumber
    version: int = Field(ge=1)
    former: int | None = Field(default=None, ge=1)
    """What everybody was to run then, and what it goes back to."""
    classes: int = Field(default=0, ge=0)
    """How many that one knows."""
    salt: str
    """Of the places of devices."""
    plan: RolloutPlan
    automatic: bool = False
    """Planned because the fleet has learned it."""


class RolloutApproved(EntryBody):
    """A person lets a group go."""

    kind: ClassVar[str] = "rollout.approved"
    rollout: RolloutNumber
    group: GroupNumber


class RolloutStarted(EntryBody):
    """A planned rollout begins."""

    kind: ClassVar[str] = "rollout.started"
    rollout: RolloutNumber


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


def _compare(rollouts: RolloutsState, body: ModelCompared, at: Place) -> None:
    of_device = rollouts.compared.setdefault(at.maker, {})
    of_device[body.comparison.key] = Reported(at.index, body.content)


def _say_compared(body: ModelCompared, at: Place) -> str:
    found = body.comparison
    images = sum(pairs.images for pairs in found.classes.values())
    when = "before it switches" if found.mode == "shadow" else "after it switched"
    return (
        f"Device {at.device} compared model {found.candidate_version} with model "
        f"{found.active_version} on {images} held-out and {found.unlabelled} other samples, {when}."
    )


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


ROLLOUTS = LedgerTopic("rollouts", kinds=(Kind(ModelCompared, _compare, _say_compared),))
