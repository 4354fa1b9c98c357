"""Scenarios that end with a rollout: what fits together, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario, parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario

HEAD = 'title = "rollout"\n'


def parsed(text: str) -> Scenario:
    return parse_scenario("s", HEAD + text, Path())


def test_a_scenario_without_a_rollout_is_written_as_before():
    scenario = load_scenario("digits-tiny")
    assert "rollout" not in scenario_to_toml(scenario)
    assert "rollout" not in scenario.model_dump(mode="json")


def test_groups_keep_whether_they_are_numbers_or_shares():
    scenario = parsed("[rollout.plan]\ngroups = [1, 0.5, 1.0]\n")
    assert parse_scenario("again", scenario_to_toml(scenario), Path()) == scenario
    assert scenario.rollout is not None
    assert [type(size) for size in scenario.rollout.plan.groups] == [int, float, float]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[rollout]\n[engine]\nkind = "mqtt"\n', r"rollout: beside engine\.kind 'mqtt'"),
        ('[rollout]\n[method]\nname = "joint"\n', r"rollout: beside method\.name 'joint'"),
        ('[rollout]\n[data]\nset = "grammar"\n', r"rollout: with the data set 'grammar'"),
        (
            '[rollout.candidate]\nkind = "bad-camera"\n',
            r"candidate\.kind: 'bad-camera' without other cameras",
        ),
        (
            '[rollout.candidate]\nkind = "slow"\nof_class = "3"\n',
            r"candidate\.of_class: '3' beside the kind 'slow'",
        ),
        ('[rollout.plan]\napprove = "operator"\n', r"plan\.approve: 'operator' waits for a person"),
        ('[rollout.cameras]\ntag = "camera"\n', r"tag: 'camera' has no value"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_way_out(text: str, told: str):
    with pytest.raises(ScenarioError, match=told):
        parsed(text)
