"""Where devices would wait for a proxy that nobody runs, a scenario is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.errors import ScenarioError
from simulator.scenario.loading import parse_scenario

HEAD = 'title = "proxy"\n[method]\nname = "lga"\n[method.settings]\nnetwork = "mlp"\n'


def test_a_method_whose_proxy_nobody_runs_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"method\.name: 'lga' .* waits for a proxy"):
        parse_scenario("s", HEAD, Path())


@pytest.mark.parametrize("preset", ["without-psr", "fedavg", "fedavg-exemplars"])
def test_presets_without_a_proxy_run(preset: str) -> None:
    scenario = parse_scenario("s", f'{HEAD}preset = "{preset}"\n', Path())
    assert scenario.method.settings["preset"] == preset


def test_a_first_stage_is_held_to_the_same() -> None:
    text = 'title = "x"\n[method]\nname = "stsa"\n[method.first_stage]\nname = "lga"\nrounds = 2\n'
    with pytest.raises(ScenarioError, match=r"'lga' .* waits for a proxy"):
        parse_scenario("s", text, Path())
