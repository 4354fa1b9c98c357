"""How many devices the groups of a rollout hold."""

from __future__ import annotations

import pytest

from coordinator.topics.devices.commands import AdmitDevice
from schemas.values import DeviceId
from tests.coordinator.topics.rollouts.rollout_bench import ABLE, RolloutBench


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


def test_who_comes_later_falls_into_an_open_group_by_its_place() -> None:
    bench = RolloutBench()
    bench.fleet(40)
    bench.begin_rollout(groups=(0.5, 1.0))
    for number in range(40):
        bench.command(AdmitDevice(device=DeviceId(f"late-{number}")))
        bench.born(f"late-{number}", capabilities=ABLE)
    assert 10 < len(bench.offered(1)) - 20 < 30
