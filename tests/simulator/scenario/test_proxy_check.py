"""A scenario whose fleet needs a proxy is refused in words where it would wait in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import parse_scenario

HEAD = 'title = "proxy"\n[method]\nname = "lga"\n[method.settings]\nnetwork = "mlp"\n'
ALLOWED = "[devices.policy]\npublish_gradients = true\n"


@pytest.mark.parametrize("engine", ['kind = "inprocess"', 'kind = "mqtt"'])
def test_agents_of_every_kind_have_one(engine: str, tmp_path: Path) -> None:
    scenario = parse_scenario("s", f"{HEAD}{ALLOWED}[engine]\n{engine}\n", tmp_path)
    assert scenario.devices.policy.publish_gradients


def test_owners_have_to_allow_gradients() -> None:
    with pytest.raises(ScenarioError, match=r"devices\.policy\.publish_gradients: false"):
        parse_scenario("s", HEAD, Path())


@pytest.mark.parametrize("preset", ["without-psr", "fedavg", "fedavg-exemplars"])
def test_presets_without_a_proxy_run(preset: str) -> None:
    scenario = parse_scenario("s", f'{HEAD}preset = "{preset}"\n', Path())
    assert scenario.method.settings["preset"] == preset


def test_a_first_stage_is_held_to_the_same() -> None:
    text = 'title = "x"\n[method]\nname = "stsa"\n[method.first_stage]\nname = "lga"\nrounds = 2\n'
    with pytest.raises(ScenarioError, match=r"publish_gradients: false, but 'lga'"):
        parse_scenario("s", text, Path())
