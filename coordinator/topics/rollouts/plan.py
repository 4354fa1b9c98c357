"""The plan of a rollout: which devices get the model when, and what must hold before more do."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from fleetledger.coordinator.topics.rollouts.evalues import fewest
from fleetledger.coordinator.topics.rollouts.scope import exact
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.rollouts import LocalHours
from fleetledger.schemas.tags import TagSelector

MAX_GROUPS = 20
OFF = "off"
"""What a file says for None."""

GroupSize = Annotated[int, Field(ge=1, le=1_000_000)] | Annotated[float, Field(gt=0, le=1)]
"""A number of devices, or a share of them: 1 is one device, 1.0 all. Either counts those of the
groups before, too."""


class GatePlan(Strict):
    """Limits of the gates; None, or "off" in a file, which cannot say None, switches a gate off."""

    retention: float | None = Field(default=200.0, gt=1)
    """Evidence of devices (an e-value) that the candidate is worse on what the active model
    knows."""
    no_class_lost: float | None = Field(default=200.0, gt=1)
    """The same for each class; multiplied by the number of classes."""
    better: float | None = Field(default=None, gt=1, exclude_if=is_absent)
    """Evidence of devices that it is better, without which it does not pass; of an adapter, of
    devices that had no part in it."""
    gain: float = Field(default=100.0, gt=1)
    """Evidence of devices that fewer images of new classes are right than `min_new`."""
    min_new: float = Field(default=0.0, ge=0, lt=1)
    """Share of images of new classes that must be right; 0 asks for nothing."""
    cap: float = Field(default=0.1, gt=0, le=1)
    """Net loss or gain, as a share of a device's images, up to which a device counts."""
    liars: float = Field(default=0.0, ge=0, lt=0.5)
    """Share of devices that may lie without moving the evidence by their number alone."""
    class_liars: float = Field(default=0.01, ge=0, lt=0.5)
    """The same for each class, of which most devices have few images, where that is more."""
    alike: int | None = Field(default=None, ge=1)
    """Most images that show the same thing; None where nobody knows. Images speak for themselves
    only where it is known, and only where devices are too few."""
    entropy_nats: float | None = Field(default=0.1, gt=0)
    """How far the mean entropy of a device may shift; more than half of a group must exceed it."""
    entropy_images: int = Field(default=500, ge=1)
    """Of fewer images the shift says nothing."""
    agreement: float | None = Field(default=0.85, gt=0, le=1)
    """Share of a device's unlabelled images that both answer alike, on average over devices; below,
    a person should look."""
    latency: float | None = Field(default=1.25, gt=1)
    """How many times the active model's p95 it may take; the same."""
    latency_seconds: float = Field(default=0.005, ge=0)
    """What is slower by less is not too slow."""
    memory: float | None = Field(default=1.25, gt=1)
    """How many times the active model's resident bytes it may take; the same."""
    throttled_devices: int | None = Field(default=1, ge=0)
    """Devices that may begin to throttle, whatever share they are."""
    throttled_share: float = Field(default=0.02, ge=0, le=1)
    """Share of devices that may begin to throttle, whatever their number."""
    failed_devices: int = Field(default=1, ge=0)
    """Devices that may fail, whatever share they are."""
    failed_share: float = Field(default=0.02, ge=0, le=1)
    """Share of devices that may fail, whatever their number."""
    min_devices: int = Field(default=3, ge=1)
    """Of fewer devices, or fewer than all of a smaller group, accuracy says nothing."""
    min_images: int = Field(default=200, ge=0)
    """The same for images, `alike` of which count as one; 0 where devices have none, so that
    nothing is asked of accuracy."""

    def devices_needed(self, classes: int) -> int:
        """Return how many devices can tell by themselves whether a model is worse.

        `classes` are those that the active model knows. It is 0 where nothing is asked of accuracy,
        or where images speak for themselves.
        """
        return max(self.needed_by_gate(classes).values(), default=0)

    def needed_by_gate(self, classes: int) -> dict[str, int]:
        """Return the same for each gate that asks whether a model is worse."""
        if not self.min_images or self.alike is not None:
            return {}
        found = {}
        if self.retention is not None:
            found["retention"] = fewest(exact(self.retention), exact(self.liars))
        if self.no_class_lost is not None:
            threshold = exact(self.no_class_lost) * max(1, classes)
            found["no_class_lost"] = fewest(threshold, self.liars_of_class)
        return found

    @property
    def liars_of_class(self) -> Fraction:
        """Share of devices that may lie about a class."""
        return max(exact(self.liars), exact(self.class_liars))

    @property
    def judges_needed(self) -> int:
        """Devices without which a model is not shown to be better, whichever one is left out."""
        return 0 if self.better is None else fewest(exact(self.better), exact(self.liars)) + 1

    @field_validator("*", mode="before")
    @classmethod
    def _may_be_off(cls, value: Any) -> Any:  # noqa: ANN401 - whatever was given
        return None if value == OFF else value


class RolloutPlan(Strict):
    """Everything about a rollout that is settled before it begins."""

    groups: tuple[GroupSize, ...] = Field(
        default=(1, 0.05, 0.25, 1.0), min_length=1, max_length=MAX_GROUPS
    )
    """Sizes, each with the groups before it."""
    tags: tuple[TagSelector, ...] = Field(default=(), max_length=16)
    """Devices that it is about: those that all of these fit; all where there is none."""
    shadow: Literal["off", "first", "all"] = "first"
    """In which groups the candidate is measured beside the active model before the switch."""
    soak_seconds: float = Field(default=3600.0, ge=0, le=1e8)
    """Time between the gates of a group and the next group."""
    reach_seconds: float = Field(default=900.0, ge=0, le=1e8)
    """Time that a device which is away has to come back before the group does without it."""
    settle_seconds: float = Field(default=600.0, ge=0, le=1e7)
    """Time that a device runs the model before it says that it has settled."""
    deadline_hours: float = Field(default=24.0, gt=0, le=1e5)
    """Of a phase of a group."""
    gates: GatePlan = GatePlan()
    on_fail: Literal["back", "pause"] = "back"
    """What a gate that fails does: go back everywhere by itself, or wait for a person."""
    on_unsure: Literal["pause", "back"] = "pause"
    """What gates do that are inconclusive when everybody has reported: the same."""
    approve: Literal["operator", "release-key"] | None = None
    """Who lets each group go; None for nobody."""
    hours: LocalHours | None = None
    """When devices may switch."""
    retries: int = Field(default=2, ge=0, le=20)
    """How often a device that failed gets it again."""
    retry_seconds: float = Field(default=600.0, ge=1, le=1e7)
    """Before the first of them; twice as long before each further one."""

    @model_validator(mode="after")
    def _grows(self) -> Self:
        for kind in (int, float):
            sizes = [size for size in self.groups if type(size) is kind]
            if sizes != sorted(set(sizes)):
                raise ValueError(f"groups: {self.groups} does not grow from group to group")
        return self


def plan_content(plan: RolloutPlan) -> dict[str, Any]:
    """Return a plan's fields as a file has them: gates that are off say so."""
    content = plan.model_dump(mode="json", exclude_none=True)
    limits = plan.gates.model_dump(mode="json")
    return content | {"gates": {k: OFF if v is None else v for k, v in limits.items()}}


AUTOMATIC = RolloutPlan(
    shadow="off",
    soak_seconds=300.0,
    settle_seconds=60.0,
    gates=GatePlan(min_devices=1, min_images=0),
)
"""Of what a fleet has learned: it asks for no least number of images, and stops by evidence alone,
since a newer model is never far."""
ADAPTED = RolloutPlan(
    groups=(1.0,),
    soak_seconds=300.0,
    settle_seconds=60.0,
    gates=GatePlan(better=100.0, entropy_nats=None, min_devices=1, min_images=0),
    on_unsure="back",
)
"""Of an adapter: everybody compares it with the model beneath before anybody runs it, and without
evidence that it is better nobody does. Its probabilities are sharper or softer, so nothing is asked
of their entropy."""
