"""Stages that devices' reports open, and what devices notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.small import (
    Quiet,
    changed,
    digests,
    fleet_of,
    learn_all,
)

REPORTS = {"classes": 4, "count": 2, "opened_by": "reports"}


def test_new_class_folders_open_the_second_stage(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache, stages=REPORTS)
    records = learn_all(prepared, tmp_path)
    assert records[0].opened_by == "operator"
    assert records[1].opened_by.startswith("reports of ")
    told = {item.device for item in records[1].transitions}
    holders = {name for name, met in prepared.plan.stages[1].devices.items() if len(met.indices)}
    assert told == holders
    for item in records[1].transitions:
        assert (item.why, item.is_new) == ("class name", True)
        assert item.seconds < 60
        assert item.images == len(prepared.plan.stages[1].devices[item.device].indices)
    by_schedule = learn_all(fleet_of(cache), tmp_path / "schedule")
    # The rows of the head are in another order.
    assert [r.aggregate for r in records] == [r.aggregate for r in by_schedule]


def test_devices_measure_what_is_new_to_their_model(tmp_path: Path, cache: Path) -> None:
    detection = {"quiet_images": 100, "min_images": 5}
    prepared = fleet_of(cache, stages=REPORTS, detection=detection)
    records = learn_all(prepared, tmp_path)
    undetected = learn_all(fleet_of(cache, stages=REPORTS), tmp_path / "off")
    assert digests(records) == digests(undetected)
    entropy = [item for record in records for item in record.transitions if item.why == "entropy"]
    assert all(item.is_new for item in entropy)


def test_a_stage_to_which_nobody_comes_says_what_is_missing(tmp_path: Path, cache: Path) -> None:
    plan = fleet_of(cache).plan
    away = {name.replace("-", "_"): {"online": False} for name in plan.stages[0].devices}
    prepared = fleet_of(cache, plan=changed(plan, 1, **away))
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    with pytest.raises(EngineError, match="stage 1 does not end: no model was made: nobody has"):
        engine.learn(prepared.plan.stages[0])
    engine.close()


def test_a_device_that_cannot_compute_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MethodError("features: out of range")

    monkeypatch.setattr("fleetledger.methods.stsa.device.DEVICE.finish", broken)
    prepared = fleet_of(cache)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    with pytest.raises(EngineError, match=r"device-\d: features: out of range"):
        engine.learn(prepared.plan.stages[0])
    engine.close()
