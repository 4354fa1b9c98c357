"""Each method of the table at its own rate: what stands beside what, and who chose the rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.fedhaf_tables.cases import SCENARIO
from benchmarks.papers.fedhaf_tables.own_rates import METHODS, RATES, Place, best_rate, table
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch

PLACE = Place(Path("core.npz"), Path("held.npz"), Path("net.onnx"), Path("runs"))


def run(average: float, rate: float = 0.05) -> dict[str, Any]:
    return {"rate": rate, "average": average, "last": 50.0, "forgetting": 20.0}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_scenario_that_holds_at_any_rate(name: str) -> None:
    method = METHODS[name]
    scenario = load_scenario(SCENARIO, PLACE.changes(name, RATES[0], 4, tuning=True))
    assert scenario.method.settings["head_rate"] == RATES[0]
    assert (scenario.stages.total, scenario.seeds) == (2, (4,))
    assert str(scenario.data.root).endswith("held.npz")
    assert method.beside in (None, *METHODS)
    assert (method.rate_of or name) in METHODS


def test_a_form_of_the_second_stage_has_the_rate_that_the_method_chose() -> None:
    tried = {"0.01": run(60.0), "0.05": run(71.0), "0.02": run(70.0)}
    results = {"rates": {"full": tried}}
    assert best_rate(results, "full") == best_rate(results, "left-out") == 0.05


def test_a_row_has_the_difference_to_the_method_beside_it() -> None:
    runs = {"full": {"1": run(60.0), "2": run(70.0)}, "own-task": {"1": run(61.0), "2": run(73.0)}}
    rates = {"full": {"0.05": run(71.0)}}
    lines = list(table({"machine": {"cpu": "a dream"}, "runs": runs, "rates": rates}))
    row = next(line for line in lines if "within their own task" in line)
    assert row.split(" | ")[1:3] == ["0.05", "1, 2"]
    assert row.split(" | ")[-2:] == ["+2.00 (-10.71, +14.71)", "FedHAF |"]
    assert lines[-1] == "| FedHAF |  |  | 71.00 |"
