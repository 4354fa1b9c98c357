"""Which devices a rollout is about, and in which of its groups each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleetledger.coordinator.topics.rollouts.plan import GroupSize, RolloutPlan
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.schemas.rollouts import WHOLE, place_of
from fleetledger.schemas.tags import TagName, TagValue, all_fit
from fleetledger.schemas.values import DeviceId

DeviceStage = Literal[
    "waiting",
    "offered",
    "shadowing",
    "switched",
    "settled",
    "refused",
    "failed",
    "rolled_back",
    "unreached",
    "pinned",
    "excluded",
]


@dataclass(frozen=True)
class KnownDevice:
    """An admitted device, as far as it decides whether a rollout is about it."""

    name: DeviceId
    tags: Mapping[TagName, TagValue] = field(default_factory=dict)
    pinned: int | None = None
    """The version that it is pinned to."""
    revoked: bool = False


@dataclass(frozen=True)
class Membership:
    """Who is in which group: the first that it is in; None for who is in none."""

    group_of: Mapping[str, int | None]
    apart: Mapping[str, DeviceStage]
    """Who is pinned or excluded."""

    def of(self, number: int) -> list[str]:
        """Return the devices of a group, those of the groups before it not among them."""
        return [name for name, group in self.group_of.items() if group == number]

    def up_to(self, number: int) -> int:
        """Return how many devices a group has with those before it."""
        return sum(group is not None and group <= number for group in self.group_of.values())


def membership(rollout: Rollout, devices: Iterable[KnownDevice]) -> Membership:
    """Return who is in which group, of groups that are not open as far as one can tell now."""
    below = {phase.group: phase.below for phase in rollout.opened}
    planned = rollout.planned
    return members_of(planned.salt, planned.plan, below, devices, planned.classes)


def members_of(
    salt: str,
    plan: RolloutPlan,
    below: Mapping[int, int],
    devices: Iterable[KnownDevice],
    classes: int,
) -> Membership:
    """Return the same of a plan; `below` are the bounds of groups that were opened.

    `classes` are those that the active model knows.
    """
    group_of, apart, places = dict[str, int | None](), dict[str, DeviceStage](), dict[str, int]()
    for device in sorted(devices, key=lambda one: one.name):
        if device.revoked or not all_fit(plan.tags, device.tags):
            apart[device.name] = "excluded"
        elif device.pinned is not None:
            apart[device.name] = "pinned"
        else:
            places[device.name] = place_of(salt, device.name)
    ordered = sorted(places.values())
    needed = plan.gates.devices_needed(classes)
    bounds = [
        below.get(number, _bound(size, ordered, needed if number > 1 else 0))
        for number, size in enumerate(plan.groups, 1)
    ]
    for name, place in places.items():
        inside = (number for number, bound in enumerate(bounds, 1) if place < bound)
        group_of[name] = next(inside, None)
    return Membership(group_of, apart)


def _bound(size: GroupSize, ordered: list[int], least: int) -> int:
    """Return the bound of a group that is not open yet: a number of places, or a share of all.

    A share holds at least `least` devices, if there are so many.
    """
    if isinstance(size, int):
        return ordered[size] if size < len(ordered) else WHOLE
    share = round(size * WHOLE)
    return max(share, _bound(least, ordered, 0)) if 0 < least <= len(ordered) else share
