"""What runs begin with: which scenarios may be disturbed, and that homes are the engines' homes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.engines.paths import index_of
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import MethodSettings, StageSettings
from tests.chaos.material import prepare
from tests.chaos.runs import run_undisturbed
from tests.chaos.variants import variants, write_pictures


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    write_pictures(tmp_path / "pictures.npz")
    return variants(tmp_path / "pictures.npz")[1]


def test_a_method_whose_rounds_are_not_known_is_refused(scenario: Scenario, tmp_path: Path) -> None:
    other = scenario.model_copy(update={"method": MethodSettings(name="dcid")})
    with pytest.raises(ScenarioError, match=r"method.name: 'dcid' trains in rounds"):
        prepare(other, tmp_path / "material")


def test_stages_that_open_by_reports_are_refused(scenario: Scenario, tmp_path: Path) -> None:
    other = scenario.model_copy(update={"stages": StageSettings(opened_by="reports", count=2)})
    with pytest.raises(ScenarioError, match=r"stages.opened_by: 'reports' lets the time"):
        prepare(other, tmp_path / "material")


def test_pictures_reach_the_devices_of_the_plan_stage_by_stage(
    scenario: Scenario, tmp_path: Path
) -> None:
    material = prepare(scenario, tmp_path / "material")
    for device in material.plan.devices:
        home = material.make_agent(device, tmp_path / device)
        expected: set[int] = set()
        for stage in material.plan.stages:
            material.deliver(stage, home)
            expected |= set(stage.devices[device].indices.tolist())
            found = [index_of(path.name) for path in home.data_folder.rglob("*.png")]
            assert sorted(found) == sorted(expected)


def test_an_undisturbed_run_counts_every_picture_of_the_plan(
    scenario: Scenario, tmp_path: Path
) -> None:
    material = prepare(scenario, tmp_path / "material")
    end = run_undisturbed(material, tmp_path / "run")
    for device in material.plan.devices:
        indices = [i for s in material.plan.stages for i in s.devices[device].indices.tolist()]
        assert len(end.images[device]) == len(indices)
    assert end.stages == {
        stage.number: material.plan.names(stage.classes) for stage in material.plan.stages
    }
