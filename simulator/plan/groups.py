"""Old, new and newly joined devices: who gets data of a stage.

LGA calls the groups Z_o, Z_n and Z_a, FBL S_o, S_c and S_n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fleetledger.simulator.plan.fleet_plan import Group
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.shares import part_of
from fleetledger.simulator.scenario.sections import GroupSettings


def group_devices(
    settings: GroupSettings, roster: Roster, stage: int, random: np.random.Generator
) -> Mapping[int, Group]:
    """Return the group of every device that is there in a stage, ascending by number.

    In the first stage, and always under the rule `none`, devices are "new", or "joined" in a later
    stage that is their first: all get data. Under `redrawn` `new_share` of those that were there
    before, rounded down and drawn anew for every stage, stay "new"; the others are "old": they
    keep what they have and get nothing.
    """
    present = roster.present(stage)
    joined = [device for device in present if stage > 1 and roster.arrival(device) == stage]
    before = [device for device in present if device not in set(joined)]
    old = _draw_old(before, settings, random) if stage > 1 else set[int]()
    return {device: _group(device in old, device in set(joined)) for device in present}


def excluded_devices(
    settings: GroupSettings, roster: Roster, devices: Iterable[int]
) -> frozenset[int]:
    """Return the devices that came after the first stage, where these are never asked."""
    if settings.newcomers == "included":
        return frozenset()
    return frozenset(device for device in devices if roster.arrival(device) > 1)


def _draw_old(before: list[int], settings: GroupSettings, random: np.random.Generator) -> set[int]:
    if settings.rule == "none":
        return set()
    new = part_of(settings.new_share, len(before))
    return {int(device) for device in random.permutation(before)[new:]}


def _group(old: bool, joined: bool) -> Group:
    if old:
        return "old"
    return "joined" if joined else "new"
