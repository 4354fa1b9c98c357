"""How many devices the groups of a rollout hold."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.rollouts.plan import GatePlan, RolloutPlan
from fleetledger.schemas.rollouts import place_of
from fleetledger.schemas.values import DeviceId
from tests.coordinator.topics.rollouts.rollout_bench import RolloutBench


@pytest.mark.parametrize(
    ("size", "devices", "expected"), [(0.05, 40, 2), (0.05, 41, 3), (0.05, 3, 1), (0.5, 7, 4)]
)
def test_a_share_is_of_the_devices_that_there_are_and_no_matter_of_chance(
    size: float, devices: int, expected: int
) -> None:
    bench = RolloutBench()
    bench.fleet(devices)
    bench.begin_rollout(groups=(size, 1.0))
    assert len(bench.offered(1)) == expected


def test_ten_devices_get_a_model_in_three_groups_of_the_default_plan() -> None:
    """5 % of them hold nobody besides the first device, and are passed over."""
    bench = RolloutBench()
    devices = bench.fleet(10)
    bench.begin_rollout(groups=RolloutPlan().groups, shadow="first", gates={"min_images": 0})
    reached, phases = [], []
    while bench.rollout.stage == "running":
        phase = bench.rollout.phase
        assert phase is not None
        reached.append(len(bench.offered()))
        phases.append((phase.group, phase.mode))
        bench.all_answer(phase.group)
        bench.wait(61)
        bench.settle()
    assert phases == [(1, "shadow"), (1, "run"), (3, "run"), (4, "run")]
    assert reached == [1, 1, 3, 10]
    assert bench.rollout.stage == "finished"
    assert bench.ran[2] == set(devices)


@pytest.mark.parametrize(
    ("devices", "away", "expected"),
    [(20, 0, 13), (300, 0, 15), (20, 5, 18), (20, 9, 20), (11, 0, 11)],
)
def test_a_share_holds_as_many_devices_as_can_tell_if_so_many_are_there(
    devices: int, away: int, expected: int
) -> None:
    """Thirteen can tell of two known classes; where fewer are there, 5 % hold nobody besides."""
    bench = RolloutBench()
    fleet = bench.fleet(devices)
    by_place = sorted(fleet, key=lambda name: place_of("rollout-1", DeviceId(name)))
    for device in by_place[:away]:
        bench.leaves(device)
    bench.begin_rollout(groups=(1, 0.05, 1.0), gates=GatePlan(), reach_seconds=10.0)
    bench.answers(by_place[away])
    bench.wait(11)
    bench.settle()
    bench.wait(61)
    bench.settle()
    assert len(bench.offered()) == expected


def test_who_comes_later_falls_into_an_open_group_by_its_place() -> None:
    bench = RolloutBench()
    bench.fleet(40)
    bench.begin_rollout(groups=(0.5, 1.0))
    for number in range(40):
        bench.command(AdmitDevice(device=DeviceId(f"late-{number}")))
        bench.born(f"late-{number}")
    assert 10 < len(bench.offered(1)) - 20 < 30
