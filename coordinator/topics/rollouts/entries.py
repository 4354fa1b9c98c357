"""What becomes of rollouts, and what devices measured of a candidate beside their active model."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.times import iso_time
from fleetledger.schemas import rollouts
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.values import DeviceId, Digest


class RolloutPlanned(EntryBody):
    """A version is to go out group by group."""

    kind: ClassVar[str] = "rollout.planned"
    rollout: rollouts.RolloutNumber
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
    judges: rollouts.Share | None = Field(default=None, exclude_if=is_absent)
    """Devices that had no part in it, where others had one."""

    def say(self, at: EntryContext) -> str:
        instead = f" in place of model {self.former}" if self.former is not None else ""
        sizes = ", ".join(_size(size) for size in self.plan.groups)
        of = f" of devices with {' and '.join(map(str, self.plan.tags))}" if self.plan.tags else ""
        return f"Rollout {self.rollout} takes model {self.version}{instead} to {sizes}{of}."


class RolloutApproved(EntryBody):
    """A person lets a group go."""

    kind: ClassVar[str] = "rollout.approved"
    rollout: rollouts.RolloutNumber
    group: rollouts.GroupNumber

    def say(self, at: EntryContext) -> str:
        return f"Group {self.group} of rollout {self.rollout} may go."


class RolloutStarted(EntryBody):
    """A planned rollout begins."""

    kind: ClassVar[str] = "rollout.started"
    rollout: rollouts.RolloutNumber
    begins_ns: int | None = Field(default=None, ge=0, lt=2**63, exclude_if=is_absent)
    """Not before then, in nanoseconds since 1970; None for at once."""

    def say(self, at: EntryContext) -> str:
        when = "" if self.begins_ns is None else f" at {iso_time(self.begins_ns)}"
        return f"Rollout {self.rollout} begins{when}."


class GroupOpened(EntryBody):
    """Devices of a group get the candidate, to measure it or to run it."""

    kind: ClassVar[str] = "rollout.group_opened"
    rollout: rollouts.RolloutNumber
    group: rollouts.GroupNumber
    mode: rollouts.Mode
    below: int = Field(ge=1, le=rollouts.WHOLE)
    """Devices below this place belong to it, or to a group before it."""

    def say(self, at: EntryContext) -> str:
        what = "measures the model beside its own" if self.mode == "shadow" else "runs the model"
        return f"Group {self.group} of rollout {self.rollout} {what}: {_share(self.below)}."


class ModelCompared(EntryBody):
    """A device measured a candidate beside another model on the same images."""

    kind: ClassVar[str] = "model.compared"
    comparison: rollouts.ModelComparison

    @property
    def content(self) -> Digest:
        """Digest of what was measured, by which a repeat is known."""
        return Digest.of(canonical_json(self.model_dump(mode="json")))

    def say(self, at: EntryContext) -> str:
        found = self.comparison
        images = sum(pairs.images for pairs in found.classes.values())
        when = "before it switches" if found.mode == "shadow" else "after it switched"
        return (
            f"Device {at.device} compared model {found.candidate_version} with model "
            f"{found.active_version} on {images} held-out and "
            f"{count_of(found.unlabelled, 'other sample')}, {when}."
        )


class RolloutUnreached(EntryBody):
    """Devices of a group are away; it does without them."""

    kind: ClassVar[str] = "rollout.unreached"
    rollout: rollouts.RolloutNumber
    group: rollouts.GroupNumber
    devices: tuple[DeviceId, ...]

    def say(self, at: EntryContext) -> str:
        away = some(self.devices)
        return f"Group {self.group} of rollout {self.rollout} goes on without {away}: away."


class RolloutMeasured(EntryBody):
    """A verdict on a phase of a group."""

    kind: ClassVar[str] = "rollout.measured"
    rollout: rollouts.RolloutNumber
    group: rollouts.GroupNumber
    mode: rollouts.Mode
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

    def say(self, at: EntryContext) -> str:
        where = f"group {self.group} of rollout {self.rollout}"
        what = f"Measuring in {where}" if self.mode == "shadow" else f"Running in {where}"
        verdict = {"pass": "passed", "fail": "failed", "inconclusive": "tells too little"}
        return f"{what} {verdict[self.outcome]}: {self.reason}"


class RolloutPaused(EntryBody):
    """Nothing further goes out until a person says so."""

    kind: ClassVar[str] = "rollout.paused"
    rollout: rollouts.RolloutNumber
    reason: str

    def say(self, at: EntryContext) -> str:
        return f"Rollout {self.rollout} is paused: {self.reason}"


class RolloutResumed(EntryBody):
    """A person lets it go on."""

    kind: ClassVar[str] = "rollout.resumed"
    rollout: rollouts.RolloutNumber
    reason: str = ""

    def say(self, at: EntryContext) -> str:
        return f"Rollout {self.rollout} goes on" + (f": {self.reason}" if self.reason else ".")


class RolloutRolledBack(EntryBody):
    """Every device goes back to the former version."""

    kind: ClassVar[str] = "rollout.rolled_back"
    rollout: rollouts.RolloutNumber
    to: int | None = Field(default=None, ge=1)
    """None where there was none."""
    reason: str

    def say(self, at: EntryContext) -> str:
        to = (
            f"goes back to model {self.to}"
            if self.to is not None
            else "ends; there is nothing before"
        )
        return f"Rollout {self.rollout} {to}: {self.reason}"


class RolloutFinished(EntryBody):
    """All groups have passed."""

    kind: ClassVar[str] = "rollout.finished"
    rollout: rollouts.RolloutNumber

    def say(self, at: EntryContext) -> str:
        return f"Rollout {self.rollout} is finished: all groups passed."


class RolloutAborted(EntryBody):
    """A person ended it, or something else took its place; devices stay as they are."""

    kind: ClassVar[str] = "rollout.aborted"
    rollout: rollouts.RolloutNumber
    reason: str
    by: int | None = Field(default=None, ge=1)
    """The rollout that supersedes it."""

    def say(self, at: EntryContext) -> str:
        return f"Rollout {self.rollout} is ended, and devices keep what they run: {self.reason}"


def _size(size: float) -> str:
    if isinstance(size, int):
        return "1 device" if size == 1 else f"{count_of(size, 'device')}"
    return "all" if size == 1 else f"{100 * size:.3g} %"


def _share(below: int) -> str:
    return f"devices of the first {100 * below / rollouts.WHOLE:.4g} % of places"
