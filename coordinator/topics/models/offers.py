"""What a group of a rollout is offered: to run a version, or to measure it beside its own."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from schemas.message import Strict, is_absent
from schemas.rollouts import (
    GroupNumber,
    LocalHours,
    Mode,
    RolloutNumber,
    Share,
)
from schemas.tags import TagName, TagSelector, TagValue, all_fit
from schemas.values import DeviceId


class GroupOffer(Strict):
    """To whom a rollout offers its candidate, and how; devices are named by their places alone."""

    rollout: RolloutNumber
    group: GroupNumber
    mode: Mode
    share: Share | None = None
    """Devices whose places fall into it, whenever they come; None for all."""
    tags: tuple[TagSelector, ...] = Field(default=(), exclude_if=is_absent)
    """And that all of these fit."""
    hours: LocalHours | None = Field(default=None, exclude_if=is_absent)
    """When they may switch."""
    settle_seconds: float = Field(ge=0, le=1e7)
    """How long they run it before they say that they have settled."""

    @property
    def of_all(self) -> bool:
        """Whether every device is to run it, so that it is what the whole fleet is to run."""
        return self.share is None and not self.tags and self.mode == "run"

    def has(self, device: DeviceId, tags: Mapping[TagName, TagValue]) -> bool:
        """Whether a device with these tags is offered it."""
        return all_fit(self.tags, tags) and (self.share is None or self.share.has(device))
