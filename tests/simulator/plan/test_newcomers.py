"""Devices that come after the first stage: included like any other, or excluded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleetledger.simulator.plan.fleet_plan import FleetPlan
from tests.simulator.plan.making import make_split, plan, same

SPLIT = make_split([60] * 8)


def made(newcomers: str, **devices: Any) -> FleetPlan:
    groups = {"rule": "redrawn", "joining": 2, "newcomers": newcomers}
    return plan(
        SPLIT,
        stages={"count": 4},
        devices={"count": 4, "groups": groups, "dropout": 0.1, **devices},
    )


def test_everybody_takes_part_unless_asked_otherwise() -> None:
    usual = plan(
        SPLIT,
        stages={"count": 4},
        devices={"count": 4, "groups": {"rule": "redrawn", "joining": 2}, "dropout": 0.1},
    )
    assert same(usual, made("included"))
    assert any(d.online for s in usual.stages for d in s.devices.values() if d.group == "joined")


def test_excluded_devices_stay_offline_in_every_stage_and_all_else_is_the_same() -> None:
    first = set(made("included").stages[0].devices)
    for included, excluded in zip(made("included").stages, made("excluded").stages, strict=True):
        assert list(included.devices) == list(excluded.devices)
        for name, device in excluded.devices.items():
            other = included.devices[name]
            assert np.array_equal(device.indices, other.indices)
            assert device.group == other.group
            assert device.online == (other.online and name in first)


def test_data_still_come_to_those_that_are_excluded() -> None:
    last = made("excluded").stages[-1].devices
    joined = [device for device in last.values() if device.group == "joined"]
    assert len(joined) == 2
    assert all(len(device.indices) for device in joined)
    assert not any(device.online or device.delay_seconds for device in joined)


def test_a_device_that_is_absent_at_first_is_a_newcomer_too() -> None:
    late = {"absences": ({"device": 2, "joins": 3},), "groups": {"newcomers": "excluded"}}
    stages = made("excluded", **late).stages
    assert [s.devices["device-2"].online for s in stages if "device-2" in s.devices] == [False] * 2


@pytest.mark.parametrize(("stage", "told"), [(1, None), (2, "2 devices that joined are never")])
def test_stages_say_how_many_are_never_asked(stage: int, told: str | None) -> None:
    notes = [note for note in made("excluded").stages[stage - 1].notes if "never asked" in note]
    assert [note.startswith(told or "") for note in notes] == [True] * (told is not None)
