"""The operator's commands about what devices gave."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.contributions.entries import MAX_REASON
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId


class RetractContributions(Strict):
    """Take what a device gave out of the sum; of rounds, mark what came of it."""

    verb: Literal["retract"] = "retract"
    device: DeviceId
    part: PartKey | None = None
    """One part alone, or one round's answer; None for everything."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)


class SettleEarlier(Strict):
    """Say what becomes of what earlier installations of a device gave."""

    verb: Literal["settle-earlier"] = "settle-earlier"
    device: DeviceId
    kept: bool
    """Whether it stays in the sum."""


class CountIn(Strict):
    """Let contributions of a device count that were set aside for what they do to the model."""

    verb: Literal["count_in"] = "count_in"
    device: DeviceId
    part: PartKey | None = None
    """One part alone; None for all that are set aside."""
    reason: str = Field(default="", max_length=MAX_REASON)


ContributionCommand = RetractContributions | SettleEarlier | CountIn
