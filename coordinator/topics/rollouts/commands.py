"""The operator's commands about rollouts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.rollouts import GroupNumber, RolloutNumber

MAX_REASON = 500


class PlanRollout(Strict):
    """Plan to take a version to the fleet, group by group."""

    verb: Literal["plan-rollout"] = "plan-rollout"
    version: int = Field(ge=1)
    plan: RolloutPlan = RolloutPlan()
    start: bool = False
    """Begin at once."""


class ApproveGroup(Strict):
    """Let a group of a rollout go."""

    verb: Literal["approve-group"] = "approve-group"
    rollout: RolloutNumber
    group: GroupNumber | None = None
    """None for the next one."""


class StartRollout(Strict):
    """Begin a rollout, in place of the one that is active."""

    verb: Literal["start-rollout"] = "start-rollout"
    rollout: RolloutNumber
    begins_ns: int | None = Field(default=None, ge=0, lt=2**63)
    """Not before then, in nanoseconds since 1970; None for at once."""


class PauseRollout(Strict):
    """Let nothing further go out."""

    verb: Literal["pause-rollout"] = "pause-rollout"
    rollout: RolloutNumber
    reason: str = Field(default="", max_length=MAX_REASON)


class ResumeRollout(Strict):
    """Let it go on, in spite of what was found."""

    verb: Literal["resume-rollout"] = "resume-rollout"
    rollout: RolloutNumber
    reason: str = Field(default="", max_length=MAX_REASON)


class EndRollout(Strict):
    """End it: devices keep what they run, or all go back to what was before."""

    verb: Literal["end-rollout"] = "end-rollout"
    rollout: RolloutNumber
    back: bool = False
    reason: str = Field(default="", max_length=MAX_REASON)


RolloutCommand = (
    PlanRollout | ApproveGroup | StartRollout | PauseRollout | ResumeRollout | EndRollout
)
