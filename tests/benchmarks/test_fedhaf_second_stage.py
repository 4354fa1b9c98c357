"""The second stage's table: cases hold, and each is compared with its own seeds of another."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.papers.fedhaf_tables.second_stage import CASES, SCENARIO, table
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_a_scenario_that_holds(name: str) -> None:
    case = CASES[name]
    told = [f"method.settings.{key}={value}" for key, value in case.settings.items()]
    settings = load_scenario(SCENARIO, told).method.settings
    assert settings == {"batch": 16, **case.settings}
    assert case.beside is None or case.beside in CASES


def test_a_row_has_the_difference_to_the_case_beside_it() -> None:
    def run(average: float) -> dict[str, Any]:
        return {"average": average, "last": 50.0, "forgetting": 20.0}

    runs = {"left-out": {"1": run(60.0), "2": run(70.0)}, "default": {"1": run(61.0)}}
    *_, first, second = table({"machine": {"cpu": "a dream"}, "runs": runs})
    assert first.split(" | ")[1:3] == ["1, 2", "65.00 ± 63.53"]
    assert second.split(" | ")[-2:] == ["+1.00", "no second stage |"]
