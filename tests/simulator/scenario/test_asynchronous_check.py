"""Asynchronous rounds and slow devices in a scenario, and what does not go with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import parse_scenario
from fleetledger.simulator.scenario.model import Scenario

ASYNCHRONOUS = "[rounds.asynchronous]\nbuffer = 3\n"


def parsed(text: str, method: str = "rounds") -> Scenario:
    return parse_scenario("s", f'title = "x"\n{text}\n[method]\nname = "{method}"\n', Path())


def test_the_fleet_is_led_by_the_scenarios_rules() -> None:
    scenario = parsed(ASYNCHRONOUS)
    assert round_rules(scenario, 1).asynchronous == scenario.rounds.asynchronous
    assert round_rules(parsed(""), 1).asynchronous is None


@pytest.mark.parametrize(
    ("text", "method", "why"),
    [
        (ASYNCHRONOUS, "fedhaf", "rounds.asynchronous: 'fedhaf' needs all answers .*: 'rounds'"),
        (ASYNCHRONOUS, "stsa", "rounds.asynchronous: 'stsa' trains in no rounds of a fleet"),
        (ASYNCHRONOUS, "joint", "rounds.asynchronous: 'joint' trains in no rounds of a fleet"),
        ("[devices]\nslowest = 4", "stsa", "devices.slowest: 'stsa' trains in no rounds"),
        (
            "[devices]\nslowest = 4\n[engine]\nkind='mqtt'",
            "rounds",
            "slowest: 4 beside engine.kind",
        ),
        (f"{ASYNCHRONOUS}[engine]\nworkers = 2", "rounds", "engine.workers: 2 beside rounds.async"),
        (f"{ASYNCHRONOUS}[engine]\nkind='ray'", "rounds", "engine.kind: 'ray' beside rounds.async"),
        (f"{ASYNCHRONOUS}max_staleness = 900", "rounds", "rounds.asynchronous.max_staleness"),
    ],
)
def test_what_does_not_go_with_them_is_named(text: str, method: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        parsed(text, method)
