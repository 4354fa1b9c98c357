"""Public names of before: commands, settings, scenarios and files that people keep are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

import coordinator.cli.models
import device_agent.cli
from device_agent.settings import AgentDetectionSettings, AgentSettings
from device_agent.status import Status
from simulator.errors import ScenarioError
from simulator.metrics.headline import HEADLINE
from simulator.metrics.metric_names import BY_METRIC, FORMER
from simulator.metrics.results import RunResults
from simulator.metrics.seed_metrics import SeedMetrics, StageMetrics
from simulator.records import StageRecord
from simulator.scenario.loading import load_scenario
from simulator.scenario.model import Scenario
from simulator.scenario.writing import scenario_to_toml

BEFORE = """
title = "as it was written before"
[devices.groups]
rule = "redrawn"
newcomers = "forgotten"
[engine]
awake_agents = 7
[detection]
mode = "code"
"""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    path = tmp_path / "before.toml"
    path.write_text(BEFORE, encoding="utf-8")
    return path


def says_the_present_names(scenario: Scenario, agents: int) -> None:
    assert scenario.engine.agents_in_memory == agents
    assert scenario.devices.groups.newcomers == "excluded"
    assert scenario.detection.mode == "fixed-rise"
    text = scenario_to_toml(scenario)
    assert f"agents_in_memory = {agents}" in text
    assert not any(word in text for word in ("awake_agents", '"forgotten"', '"code"'))


def test_a_scenario_of_before_is_read_and_kept_by_the_names_of_now(before: Path) -> None:
    says_the_present_names(load_scenario(str(before)), 7)


@pytest.mark.parametrize("field", ["awake_agents", "agents_in_memory"])
def test_a_field_is_set_from_the_command_line_by_both_names(before: Path, field: str) -> None:
    says_the_present_names(load_scenario(str(before), [f"engine.{field}=9"]), 9)


def test_a_scenario_with_both_names_of_a_field_is_refused(before: Path) -> None:
    before.write_text(BEFORE.replace("awake", "agents_in_memory = 8\nawake"), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"before.toml: awake_agents: is called"):
        load_scenario(str(before))


def test_public_images_keep_their_path_under_the_former_name() -> None:
    given = load_scenario(
        "digits-dcid", ["method.shared=pictures.npz", "method.settings.shared_set=public"]
    )
    assert given.method.public_images == str(Path.cwd() / "pictures.npz")


def test_settings_of_an_agent_of_before_are_read() -> None:
    settings = {"device": "jetson-7", "fleet": "garden", "data": {"folder": "images"}}
    read = AgentSettings.model_validate({**settings, "detection": {"mode": "code"}})
    assert read.detection == AgentDetectionSettings(mode="fixed-rise")


@pytest.mark.parametrize("model", [Status, StageRecord, StageMetrics])
def test_results_and_status_of_before_are_read(model) -> None:
    for former, present in model.former_fields.items():
        assert former not in model.model_fields
        assert present in model.model_fields


@pytest.mark.parametrize(
    ("app", "former", "present"),
    [
        (device_agent.cli.app, "give-again", "resubmit"),
        (coordinator.cli.models.app, "back", "rollback"),
    ],
)
def test_a_command_of_before_does_the_same_and_is_not_listed(app, former, present) -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    names = {line.split()[1] for line in listed.splitlines() if len(line.split()) > 1}
    assert present in names
    assert former not in names
    helps = [CliRunner().invoke(app, [name, "--help"]).output for name in (former, present)]
    old, new = (told.partition("\n\n")[2].partition("\n\n") for told in helps)
    assert old == new, "all but the line of usage"


def test_public_images_of_a_network_are_given_by_both_names() -> None:
    told = CliRunner().invoke(coordinator.cli.models.app, ["import-network", "--help"]).output
    assert "--public-images" in told
    assert "--shared" in told


def test_headline_numbers_of_before_have_the_names_of_now() -> None:
    by_name = TypeAdapter(Annotated[dict[str, float], BY_METRIC])
    found = by_name.validate_python({"looks_false_alarms": 0.25, "tasks_missed": 0.5})
    assert found == {"novelty_checks_false_alarms": 0.25, "tasks_missed": 0.5}
    assert set(FORMER.values()) <= {metric.name for metric in HEADLINE}
    for model, field in ((SeedMetrics, "headline"), (RunResults, "summary")):
        assert BY_METRIC in model.model_fields[field].metadata
