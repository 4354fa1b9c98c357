"""`[rollout]`: a candidate that goes out group by group once the fleet has learned.

The rollout itself is the coordinator's and the agents' own (docs/rollouts.md); here stands what the
candidate is like, what devices hold to measure it on, and what goes wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.topics.rollouts.plan import ADAPTED, RolloutPlan
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tags import TagSelector
from fleetledger.schemas.values import ClassName

_ADAPTED = ADAPTED.model_copy(
    update={"gates": ADAPTED.gates.model_copy(update={"alike": 1})},
)
CandidateKind = Literal["good", "bad-class", "bad-camera", "slow", "crashing", "adapted"]


class CandidateSettings(Strict):
    """`[rollout.candidate]`: what is made of the fleet's last model, as a real ONNX file."""

    kind: CandidateKind = "good"
    """`good`: scores with a little noise. `bad-class`: one class never wins. `bad-camera`: pictures
    that are darker than those of `[rollout.cameras]` may be are taken for black. `slow`: the same
    answers after more computing. `crashing`: passes wherever pictures are made up, and cannot run
    on those of devices. `adapted`: an adapter that the fleet trains on top of its last model, as
    after `fleetledger model adapt`."""
    of_class: ClassName | None = None
    """The class that `bad-class` loses; left out, the model's first."""
    noise: float = Field(default=0.01, ge=0, le=1)
    """Of `good`: standard deviation of the factors that scores are mixed by."""
    work: int = Field(default=60, ge=1, le=1000)
    """Of `slow`: products of matrices of 256 by 256 that an answer takes more, roughly a fifth
    of a millisecond each."""
    rounds: int = Field(default=10, ge=1, le=100_000)
    """Of `adapted`: rounds in which it is trained."""
    judges: float = Field(default=0.2, gt=0, lt=1)
    """Of `adapted`: share of the devices that have no part in it, and say whether it is better."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of `adapted`: settings of method `rounds`, whose preset is `adapter`."""


class CameraSettings(Strict):
    """`[rollout.cameras]`: devices whose pictures come from another camera, and a tag for them."""

    tag: str = "camera=dim"
    """What these devices' owners say of them, name and value."""
    share: float = Field(default=0.2, gt=0, le=1)
    """Of the devices."""
    brightness: float = Field(default=0.4, gt=0, lt=1)
    """What the value of every pixel is multiplied by."""

    @property
    def selector(self) -> TagSelector:
        """The tag, as devices are chosen by it."""
        return TagSelector.parse(self.tag)

    @model_validator(mode="after")
    def _has_a_value(self) -> Self:
        if self.selector.value is None:
            raise ValueError(f"tag: {self.tag!r} has no value; write name=value")
        return self


class RolloutSettings(Strict):
    """`[rollout]`: after the last stage a candidate goes out group by group, and is measured."""

    candidate: CandidateSettings = CandidateSettings()
    held_out: int = Field(default=20, ge=0, le=10_000)
    """Test images on every device, drawn for each by itself, on which it compares models."""
    failing: float = Field(default=0.0, ge=0, le=1)
    """Share of the devices on which the candidate cannot be installed."""
    silent: float = Field(default=0.0, ge=0, lt=1)
    """Share of the devices that are off while the rollout goes, and come back when it is over."""
    cameras: CameraSettings | None = None
    """Left out, all devices have the same camera."""
    plan: RolloutPlan = RolloutPlan()
    """Groups, times and gates, as `fleetledger rollout plan` takes them. Left out, a candidate that
    is `adapted` has the plan of adapters, with `alike` = 1: images of a data set show different
    things."""

    @model_validator(mode="before")
    @classmethod
    def _has_the_plan_of_its_kind(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        if not isinstance(values, Mapping) or "plan" in values:
            return values
        candidate = CandidateSettings.model_validate(values.get("candidate", {}))
        return {**values, "plan": _ADAPTED} if candidate.kind == "adapted" else values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        kind = self.candidate.kind
        if kind == "bad-camera" and self.cameras is None:
            raise ValueError(
                "candidate.kind: 'bad-camera' without other cameras; add [rollout.cameras]"
            )
        if self.candidate.of_class is not None and kind != "bad-class":
            raise ValueError(
                f"candidate.of_class: {self.candidate.of_class!r} beside the kind {kind!r}; leave "
                "it out, or take 'bad-class'"
            )
        if self.plan.approve is not None:
            raise ValueError(
                f"plan.approve: {self.plan.approve!r} waits for a person, and a simulated fleet "
                "has none; leave it out"
            )
        return self
