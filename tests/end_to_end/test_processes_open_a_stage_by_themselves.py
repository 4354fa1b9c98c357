"""Broker, coordinator and agents as processes: new class folders open the second stage."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from coordinator.topics.stages import views as stage_views
from simulator.demo.run import run_demo
from simulator.demo.settings import DemoSettings

pytestmark = pytest.mark.broker

NEW = {"3", "4", "5"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("reports") / "run"
    settings = DemoSettings(
        out, seed=5, agents=2, stages=2, classes_per_stage=3, map_width=150, opening="reports"
    )
    return out, run_demo(settings, Console(file=StringIO(), width=160))


def test_the_operator_opens_the_first_stage_and_the_reports_of_all_devices_the_second(run):
    out, content = run
    first, second = stage_views.stages(out / "coordinator")
    assert first.opened == "by operator"
    assert second.opened.startswith("by reports of 2 devices, 2 needed: ")
    assert set(second.class_names) == NEW
    assert content["stages"][1]["opened"] == second.opened.removeprefix("by ")


def test_each_device_reported_the_folders_that_appeared_on_it(run):
    out, content = run
    held = {
        device.name: {folder.name for folder in (device / "data").iterdir()} & NEW
        for device in (out / "agents").iterdir()
    }
    told: dict[str, set[str]] = {device: set() for device in held}
    for report in content["reports"]:
        if report["stage"] == 1:
            told[report["device"]] |= set(report["classes"])
    assert told == held
    assert set.union(*told.values()) == NEW


def test_the_fleet_has_learned_the_classes_that_nobody_announced(run):
    _, content = run
    last = content["stages"][1]
    assert set(last["by_class"]) == {"0", "1", "2", *NEW}
    assert last["accuracy"] > 0.95
    assert abs(last["difference_points"]) <= 0.5
    assert content["problems"] == []
    assert content["ledger"]["verified"]
