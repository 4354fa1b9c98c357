"""What a group of a rollout is offered: to run a version, or to measure it beside its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas import rollouts
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.tags import TagName, TagSelector, TagValue, all_fit
from fleetledger.schemas.values import DeviceId


class GroupOffer(Strict):
    """To whom a rollout offers its candidate, and how; devices are named by their places alone."""

    rollout: rollouts.RolloutNumber
    group: rollouts.GroupNumber
    mode: rollouts.Mode
    share: rollouts.Share | None = None
    """Devices whose places fall into it, whenever they come; None for all."""
    tags: tuple[TagSelector, ...] = Field(default=(), exclude_if=is_absent)
    """And that all of these fit."""
    hours: rollouts.LocalHours | None = Field(default=None, exclude_if=is_absent)
    """When they may switch."""
    settle_seconds: float = Field(ge=0, le=1e7)
    """How long they run it before they say that they have settled."""
    offline: bool = Field(default=False, exclude_if=lambda found: not found)
    """Only a release that was signed elsewhere lets it out, also where the key is at hand."""

    @property
    def of_all(self) -> bool:
        """Whether every device is to run it, so that it is what the whole fleet is to run."""
        return self.share is None and not self.tags and self.mode == "run"

    def has(self, device: DeviceId, tags: Mapping[TagName, TagValue]) -> bool:
        """Whether a device with these tags is offered it."""
        return all_fit(self.tags, tags) and (self.share is None or self.share.has(device))


class Offered(Protocol):
    """What is offered to a group, be it desired or released."""

    @property
    def action(self) -> int:
        """The entry that offers it."""

    @property
    def group(self) -> GroupOffer | None:
        """To whom."""


AnyOffered = TypeVar("AnyOffered", bound=Offered)


def after_offer(offers: Iterable[AnyOffered], new: AnyOffered) -> list[AnyOffered]:
    """Return the offers with a new one: to run it ends that it is only compared."""
    group = new.group
    assert group is not None
    ends = (group.rollout, "shadow") if group.mode == "run" else None
    return [*(item for item in offers if _key(item) != ends and item.group != group), new]


def after_everybodys(offers: Iterable[AnyOffered], new: Offered) -> list[AnyOffered]:
    """Return the offers after a version became everybody's: with a rollout's last group its own."""
    rollout = None if new.group is None else new.group.rollout
    return [item for item in offers if _key(item) == (rollout, "run")]


def newest_offer(
    offers: Sequence[AnyOffered], is_offered: Callable[[GroupOffer], bool]
) -> AnyOffered | None:
    """Return what the newest rollout of which a device has a group offers it.

    What it was first offered to run stays, also when later groups have it, too.
    """
    found: AnyOffered | None = None
    for item in reversed(offers):
        group = item.group
        assert group is not None
        if found is not None and found.group is not None and group.rollout != found.group.rollout:
            break
        if (found is None or group.mode == "run") and is_offered(group):
            found = item
    return found


def _key(offered: Offered) -> tuple[int, str]:
    assert offered.group is not None
    return offered.group.rollout, offered.group.mode
