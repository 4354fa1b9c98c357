"""Devices that come and go."""

import pytest

from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.scenario.sections import Absence, DeviceSettings, GroupSettings


def test_devices_join_and_leave_by_schedule():
    absences = {1: Absence(device=1, leaves=3), 2: Absence(device=2, joins=2, leaves=4)}
    roster = Roster(3, 2, absences)
    assert roster.present(1) == (1, 3)
    assert roster.present(2) == (1, 2, 3, 4, 5)
    assert roster.present(3) == (2, 3, 4, 5, 6, 7)
    assert roster.present(4) == (3, 4, 5, 6, 7, 8, 9)


def test_arrival_is_the_first_stage_in_which_a_device_is_there():
    roster = Roster(3, 2, {2: Absence(device=2, joins=3), 5: Absence(device=5, joins=1)})
    arrivals = [roster.arrival(device) for device in range(1, 10)]
    assert arrivals == [1, 3, 1, 2, 2, 3, 3, 4, 4]
    for device, stage in enumerate(arrivals, start=1):
        assert device in roster.present(stage)
        assert device not in (roster.present(stage - 1) if stage > 1 else ())


def test_a_scenario_makes_a_roster():
    settings = DeviceSettings(
        count=7,
        groups=GroupSettings(rule="redrawn", joining=2),
        absences=(Absence(device=3, joins=2),),
    )
    roster = Roster.of(settings)
    assert (roster.first, roster.joining, set(roster.absences)) == (7, 2, {3})


def test_owners_limit_the_devices():
    assert Roster(30, 0, {}).limited_to(20, stages=5).first == 20
    assert Roster(5, 3, {}).limited_to(20, stages=6).known(6) == 20


@pytest.mark.parametrize(
    "roster", [Roster(6, 3, {}), Roster(30, 0, {25: Absence(device=25, joins=2)})]
)
def test_devices_without_an_owner_are_refused(roster: Roster):
    with pytest.raises(PlanError, match="the data set has 20"):
        roster.limited_to(20, stages=6)
