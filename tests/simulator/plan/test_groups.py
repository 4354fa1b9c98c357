"""Old, new and newly joined devices."""

import numpy as np
import pytest

from fleetledger.simulator.plan.groups import group_devices
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.scenario.sections import Absence, GroupSettings

ROSTER = Roster(first=30, joining=10, absences={})


def group(settings: GroupSettings, stage: int, roster: Roster = ROSTER, seed: int = 0):
    return group_devices(settings, roster, stage, np.random.default_rng(seed))


def sizes(groups) -> dict[str, int]:
    return {name: list(groups.values()).count(name) for name in ("old", "new", "joined")}


def test_lgas_groups_have_its_programs_sizes():
    """Of those present 90 % get new classes, 10 % keep what they have, ten join."""
    settings = GroupSettings(rule="redrawn", new_share=0.9, joining=10)
    assert sizes(group(settings, 1)) == {"old": 0, "new": 30, "joined": 0}
    assert sizes(group(settings, 2)) == {"old": 3, "new": 27, "joined": 10}
    assert sizes(group(settings, 3)) == {"old": 4, "new": 36, "joined": 10}
    assert sizes(group(settings, 10)) == {"old": 11, "new": 99, "joined": 10}


def test_the_joined_are_the_last_numbers():
    groups = group(GroupSettings(rule="redrawn", joining=10), 3)
    assert [n for n, name in groups.items() if name == "joined"] == list(range(41, 51))


def test_who_is_old_is_left_to_chance():
    settings = GroupSettings(rule="redrawn", new_share=0.5)
    roster = Roster(10, 0, {})
    times = np.zeros(11)
    for seed in range(400):
        for device, name in group(settings, 2, roster, seed).items():
            times[device] += name == "old"
    assert np.abs(times[1:] / 400 - 0.5).max() < 0.1


def test_without_groups_everybody_gets_data():
    assert sizes(group(GroupSettings(), 4, Roster(6, 0, {}))) == {"old": 0, "new": 6, "joined": 0}


@pytest.mark.parametrize("rule", ["none", "redrawn"])
def test_a_device_that_comes_late_is_newly_joined_in_its_first_stage(rule):
    roster = Roster(4, 0, {2: Absence(device=2, joins=3)})
    settings = GroupSettings(rule=rule, new_share=0.0)
    assert 2 not in group(settings, 2, roster)
    assert group(settings, 3, roster)[2] == "joined"
    assert group(settings, 4, roster)[2] == ("new" if rule == "none" else "old")
