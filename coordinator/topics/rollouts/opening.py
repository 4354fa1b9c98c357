"""Which group of a rollout comes next, which devices are in it, and what they are offered.

- A group of a share is all devices up to the place of so many of those that there are, so that 5 %
  of a hundred are five and not by chance ten; who comes later falls in by its place. From the
  second group on it holds as many devices as can tell by themselves, if so many are there. A group
  of a number is all up to the place of so many devices that are there, so that it is not made of
  devices that are away.
- A group that holds nobody besides those before it is left out, but for the last one, which is for
  whoever comes later, too.
- A group is only asked to compare where somebody can: who runs nothing cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.coordinator.topics.rollouts.entries import GroupOpened
from fleetledger.coordinator.topics.rollouts.plan import GroupSize, RolloutPlan
from fleetledger.coordinator.topics.rollouts.scope import exact
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.schemas.rollouts import WHOLE, Mode, Share, place_of
from fleetledger.schemas.tags import all_fit
from fleetledger.schemas.values import DeviceId


def next_phase(state: State, live: Live, rollout: Rollout) -> GroupOpened | None:
    """Return what opens next; None while nobody of it is there, or where all groups were open."""
    phase, plan = rollout.phase, rollout.planned.plan
    if phase is not None and phase.mode == "shadow":
        return _opened(rollout, phase.group, "run", phase.below)
    group, below = (0, 0) if phase is None else (phase.group, phase.below)
    there = [device for device in state.devices.admitted if live.seen(device).boot is not None]
    if not there:
        return None
    places = {device: place_of(rollout.planned.salt, device) for device in concerned(state, plan)}
    for number in range(group + 1, len(plan.groups) + 1):
        least = 0 if number == 1 else plan.gates.devices_needed(rollout.planned.classes)
        bound = _bound(plan.groups[number - 1], places, there, least)
        if bound is None:
            return None
        bound = max(bound, below)
        added = [device for device, place in places.items() if below <= place < bound]
        if added or number == len(plan.groups):
            shadows = plan.shadow == "all" or (plan.shadow == "first" and phase is None)
            can = shadows and any(_can_compare(state, rollout, device) for device in added)
            return _opened(rollout, number, "shadow" if can else "run", bound)
    return None


def offer(rollout: Rollout, opened: GroupOpened) -> GroupOffer:
    """Return what the devices of a phase are offered."""
    plan, whole = rollout.planned.plan, opened.below == WHOLE
    return GroupOffer(
        rollout=rollout.number,
        group=opened.group,
        mode=opened.mode,
        share=None if whole else Share(salt=rollout.planned.salt, below=opened.below),
        tags=plan.tags,
        hours=plan.hours,
        settle_seconds=plan.settle_seconds,
        offline=plan.approve == "release-key",
    )


def is_last(rollout: Rollout) -> bool:
    """Whether the phase that is open is the last one."""
    phase = rollout.phase
    return (
        phase is not None
        and phase.mode == "run"
        and phase.group == len(rollout.planned.plan.groups)
    )


def _opened(rollout: Rollout, group: int, mode: Mode, below: int) -> GroupOpened:
    return GroupOpened(rollout=rollout.number, group=group, mode=mode, below=below)


def concerned(state: State, plan: RolloutPlan) -> Iterator[DeviceId]:
    """Yield every device that a rollout is about."""
    for device, known in state.devices.admitted.items():
        kept_out = device in state.models.pinned or state.keys.of(device).revoked
        if known.led and not kept_out and all_fit(plan.tags, known.tags):
            yield device


def _bound(
    size: GroupSize, places: Mapping[DeviceId, int], there: Iterable[DeviceId], least: int
) -> int | None:
    """Return the place below which devices are in a group; None while nobody of it is there.

    A share holds `least` devices that are there, if so many are.
    """
    if size == 1.0 and isinstance(size, float):
        return WHOLE
    everybody = sorted(places.values())
    present = sorted(places[device] for device in there if device in places)
    if not present:
        return None
    if isinstance(size, float):
        share = everybody[math.ceil(exact(size) * len(everybody)) - 1] + 1
        return max(share, present[least - 1] + 1) if 0 < least <= len(present) else share
    if len(present) >= size:
        return present[size - 1] + 1
    return WHOLE if len(everybody) < size else max(present[-1], everybody[size - 1]) + 1


def _can_compare(state: State, rollout: Rollout, device: DeviceId) -> bool:
    return state.models.of(device).active_version not in (None, rollout.planned.version)
