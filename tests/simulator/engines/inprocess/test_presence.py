"""Devices that are away, late, new or gone."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from tests.simulator.engines.inprocess.small import (
    ByHand,
    Quiet,
    bodies,
    changed,
    counted_of,
    fleet_of,
    learn_all,
)


def test_what_reached_a_device_while_it_was_away_counts_when_it_is_back(
    tmp_path: Path, cache: Path
) -> None:
    prepared = fleet_of(cache)
    plan = changed(prepared.plan, 1, device_2={"online": False})
    records = learn_all(fleet_of(cache, plan=plan), tmp_path)
    first, second = (len(stage.devices["device-2"].indices) for stage in plan.stages)
    assert counted_of(records, "device-2") == [0, first + second]
    assert [r.devices["device-2"].online for r in records] == [False, True]
    assert records[0].devices["device-2"].answered_seconds is None
    everything = learn_all(prepared, tmp_path / "everybody")
    assert records[-1].aggregate == everything[-1].aggregate


def test_a_stage_waits_for_absent_devices_until_its_deadline(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache, engine={"deadline_seconds": 500.0})
    plan = changed(prepared.plan, 1, device_2={"online": False})
    records = learn_all(fleet_of(cache, plan=plan, engine={"deadline_seconds": 500.0}), tmp_path)
    assert 500 <= records[0].fleet_seconds < 520
    assert records[1].fleet_seconds < 30


def test_an_answer_after_the_deadline_counts_with_a_later_model(
    tmp_path: Path, cache: Path
) -> None:
    engine = {"deadline_seconds": 100.0}
    prepared = fleet_of(cache, engine=engine)
    plan = changed(prepared.plan, 1, device_3={"delay_seconds": 130.0})
    plan = changed(plan, 2, device_1={"delay_seconds": 60.0})
    records = learn_all(fleet_of(cache, plan=plan, engine=engine), tmp_path)
    first, second = (len(stage.devices["device-3"].indices) for stage in plan.stages)
    assert counted_of(records, "device-3") == [0, first + second]
    assert records[0].devices["device-3"].answered_seconds is None
    assert 60 <= (records[1].devices["device-1"].answered_seconds or 0) < 70
    on_time = learn_all(prepared, tmp_path / "on-time")
    assert records[0].aggregate != on_time[0].aggregate
    assert records[1].aggregate == on_time[1].aggregate


def test_a_late_answer_within_the_deadline_is_waited_for(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache)
    plan = changed(prepared.plan, 1, device_3={"delay_seconds": 250.0})
    records = learn_all(fleet_of(cache, plan=plan), tmp_path)
    assert 250 <= (records[0].devices["device-3"].answered_seconds or 0) < 260
    assert records[0].aggregate == learn_all(prepared, tmp_path / "on-time")[0].aggregate


def test_a_device_joins_and_another_leaves(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache)
    plan = changed(prepared.plan, 1, device_3=None)
    plan = changed(plan, 2, device_1=None)
    prepared = fleet_of(cache, plan=plan)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    records = [engine.learn(stage) for stage in plan.stages]
    assert [sorted(record.devices) for record in records] == [
        ["device-1", "device-2"],
        ["device-2", "device-3"],
    ]
    assert records[1].aggregate == ByHand(prepared, engine).pooled(2)
    # Nobody waits for the device that has left until the deadline.
    assert records[1].fleet_seconds < 60
    engine.close()


def test_of_a_large_fleet_a_share_can_take_part(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache, devices={"count": 6}, rounds={"participation": 0.5})
    records = learn_all(prepared, tmp_path)
    for record in records:
        assert sum(device.online for device in record.devices.values()) == 3
        assert record.fleet_seconds < 60


def test_messages_wait_for_a_device_that_is_away(tmp_path: Path, cache: Path) -> None:
    """It gives parts for each stage, as one whose messages a broker kept."""
    sections = {"stages": {"classes": 8, "count": 4}, "engine": {"deadline_seconds": 100.0}}
    plan = changed(fleet_of(cache, **sections).plan, 2, device_3={"online": False})
    plan = changed(plan, 3, device_3={"online": False})
    prepared = fleet_of(cache, plan=plan, **sections)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    for stage in plan.stages:
        engine.learn(stage)
    stages = {
        body.part.key.stage
        for name, body in bodies(engine)
        if isinstance(body, ContributionAccepted) and name == "device-3"
    }
    engine.close()
    assert stages == {1, 2, 3, 4}
