"""The table from scratch: one footing for all rows, rates inside their grids, honest gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.footing.cells import Step, added
from benchmarks.papers.footing.rates import MOST_RATES, at_edge, best_of, next_length, next_rate
from benchmarks.papers.from_scratch.cases import (
    EXEMPLARS,
    FIRST_PASSES,
    IMAGES,
    NETWORK,
    RIVAL,
    ROWS,
    SCENARIO,
    SEEDS,
    TUNING_SEED,
    first_task,
)
from benchmarks.papers.from_scratch.run import behind_rate, steps
from benchmarks.papers.from_scratch.tables import tables
from fleetledger.simulator.plan.stages import divide_classes
from fleetledger.simulator.scenario.loading import load_scenario

NOTHING: dict[str, Any] = {"machine": {}, "rates": {}, "runs": {}}


def run(average: float, rate: float = 0.02) -> dict[str, Any]:
    costs = {"mib_up": 1.0, "mib_down": 2.0, "device_seconds": 3.0, "processor_seconds": 60.0}
    seen = {"average": average, "last": average - 10, "old_classes": average - 20}
    return {"rate": rate, **seen, "forgetting": 5.0, **costs}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_the_same_fleet_with_the_same_pictures_and_rounds(name: str) -> None:
    row = ROWS[name]
    scenario = load_scenario(SCENARIO, row.changes(Path("core.npz"), 2, row.rates[0]))
    shared = load_scenario(SCENARIO, ["seeds=[2]", "data.root=core.npz"])
    assert (scenario.seeds, scenario.data, scenario.backbone) == (
        shared.seeds,
        shared.data,
        shared.backbone,
    )
    assert scenario.devices.partition == shared.devices.partition
    assert scenario.devices.count == shared.devices.count
    assert row.apart or scenario.stages == shared.stages
    assert row.passes or scenario.rounds == shared.rounds


@pytest.mark.parametrize("name", ROWS)
def test_a_rate_is_tried_on_a_seed_of_its_own_and_no_test_image(name: str) -> None:
    row = ROWS[name]
    held_out = Path("held_out.npz")
    scenario = load_scenario(
        SCENARIO, row.tuning_changes(held_out, row.rates[0], row.passes and 40)
    )
    assert scenario.seeds == (TUNING_SEED,)
    assert TUNING_SEED not in SEEDS
    assert str(scenario.data.root).endswith(str(held_out))
    assert len(row.rates) >= 4 or row.ingredient


@pytest.mark.parametrize("name", ROWS)
def test_every_row_trains_the_same_network_and_keeps_the_same_exemplars(name: str) -> None:
    row = ROWS[name]
    scenario = load_scenario(SCENARIO, row.changes(Path("core.npz"), 1, row.rates[0]))
    first = scenario.method.first_stage
    settings = scenario.method.settings if first is None else first.settings
    kept = {"exemplars_per_class", "memory_per_class", "anchors_per_class"} & settings.keys()
    assert {settings[name] for name in kept} <= {EXEMPLARS}
    if row.behind is None:
        assert settings["network"].removesuffix("_signed") == NETWORK
    else:
        assert ROWS[row.behind].fields["method.first_stage.settings.network"] == NETWORK
        assert settings["exemplar_ratio"] * IMAGES == EXEMPLARS


def test_a_grid_grows_until_its_best_rate_is_inside() -> None:
    scores = {0.1: 10.0, 0.2: 20.0, 0.4: 30.0, 0.8: 40.0, 1.6: 35.0}
    tried: dict[float, float | None] = {}
    order = []
    while (rate := next_rate(tried, (0.1, 0.2, 0.4))) is not None:
        order.append(rate)
        tried[rate] = scores[rate]
    assert order == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert best_of(tried) == 0.8
    assert not at_edge(tried)


def test_a_grid_grows_downwards_and_a_failed_run_is_no_best() -> None:
    grid = (0.1, 0.2, 0.4)
    tried: dict[float, float | None] = {0.1: 30.0, 0.2: None, 0.4: None}
    assert next_rate(tried, grid) == 0.05
    assert next_rate({**tried, 0.05: 20.0}, grid) is None
    assert next_rate(dict.fromkeys(grid), grid) is None


def test_a_search_ends_though_its_best_rate_stays_at_the_edge() -> None:
    tried: dict[float, float | None] = {}
    while (rate := next_rate(tried, (0.1, 0.2))) is not None:
        tried[rate] = len(tried) + 1.0
    assert len(tried) == MOST_RATES
    assert at_edge(tried)


def test_passes_double_until_a_doubling_gains_less_than_was_said() -> None:
    assert next_length({}, 20, 0.5, 160) == 20
    assert next_length({20: 50.0}, 20, 0.5, 160) == 40
    assert next_length({20: 50.0, 40: 50.4}, 20, 0.5, 160) is None
    assert next_length({20: 50.0, 40: 50.6}, 20, 0.5, 160) == 80
    assert next_length({20: 50.0, 40: 50.6}, 20, 0.5, 79) is None


def test_rates_come_before_the_first_seed_row_by_row_and_known_cells_are_not_run_again() -> None:
    names = ["fedavg", "joint"]
    held = [added(NOTHING, Step("fedavg", ROWS["fedavg"].rates[0], None), run(20.0))]
    scores = {0.01: 20.0, 0.02: 30.0, 0.04: 25.0, 0.08: 10.0}
    taken = []
    for step in steps(names, [1, 2], lambda: held[-1]):
        taken.append((step.method, step.kind, step.key, step.rate, step.passes))
        assert step.rate is not None
        held.append(added(held[-1], step, run(scores[step.rate], step.rate)))
    assert taken == [
        *(("fedavg", "rates", f"{rate:g}", rate, None) for rate in (0.02, 0.04, 0.08)),
        ("fedavg", "runs", "seed 1", 0.02, None),
        *(("joint", "rates", f"{rate:g}", rate, None) for rate in (0.01, 0.02, 0.04, 0.08)),
        ("joint", "passes", "40", 0.02, 40),
        ("joint", "runs", "seed 1", 0.02, FIRST_PASSES),
        ("fedavg", "runs", "seed 2", 0.02, None),
        ("joint", "runs", "seed 2", 0.02, FIRST_PASSES),
    ]


def test_what_learns_behind_a_network_has_its_rate_first_and_the_same_first_task() -> None:
    held = [NOTHING]
    taken = []
    for step in steps(["fedhaf"], [1], lambda: held[-1]):
        taken.append((step.method, step.kind))
        assert step.rate is not None
        held.append(added(held[-1], step, run(30.0 if step.rate == 0.04 else 20.0, step.rate)))
    rates = len(ROWS["stsa"].rates)
    assert taken == [
        *[("stsa", "rates")] * rates,
        *[("fedhaf", "rates")] * rates,
        ("fedhaf", "runs"),
    ]
    assert behind_rate(held[-1], "fedhaf") == 0.04
    assert behind_rate(held[-1], "stsa") is None
    alone = load_scenario(SCENARIO, first_task(Path("core.npz"), 2, 0.04))
    whole = load_scenario(SCENARIO, ROWS["stsa"].changes(Path("core.npz"), 2, 0.04))
    assert whole.method.first_stage is not None
    assert alone.method.settings == whole.method.first_stage.settings
    assert alone.rounds.per_stage == whole.method.first_stage.rounds
    names = [f"class-{number}" for number in range(100)]
    (first,) = divide_classes(alone.stages, names, 2)
    assert first == divide_classes(whole.stages, names, 2)[0]


def test_a_row_whose_runs_all_fail_has_no_seed() -> None:
    held = [NOTHING]
    taken = []
    for step in steps(["fedavg"], [1], lambda: held[-1]):
        taken.append(step.kind)
        held.append(added(held[-1], step, {"rate": step.rate, "failed": "no numbers"}))
    assert taken == ["rates"] * len(ROWS["fedavg"].rates)
    assert "failed" in tables(held[-1])


def test_the_table_says_differences_by_seed_and_what_is_lacking() -> None:
    runs = {
        RIVAL: {"seed 1": run(20.0), "seed 2": run(22.0), "seed 3": run(21.0)},
        "lga-code": {"seed 1": run(30.0, 2.0), "seed 2": run(31.0, 2.0)},
        "dcid-icarl": {"seed 1": run(50.0)},
    }
    rates = {"lga-code": {"1": run(20.0), "2": run(25.0), "4": run(10.0)}}
    text = tables({"machine": {"cores": 2}, "rates": rates, "runs": runs})
    assert "| LGA, mode `code` | 2 | 2 | 30.5 ± 6.4 |" in text
    assert "+9.5 (+3.1 to +15.9)" in text, "Student's t with one degree of freedom"
    assert "lga-code (3)" in text
    assert f"{RIVAL} (" not in text.partition("## Not there")[2].partition("## How")[0]
    own = text.partition("## On a base of their own")[2]
    assert ROWS["dcid-icarl"].title in own
    assert "1: 20.0, **2: 25.0**, 4: 10.0 |" in text


def test_a_step_towards_best_is_tried_once_on_images_that_are_held_out() -> None:
    held = [NOTHING]
    taken = []
    for step in steps(["step-flat"], [1, 2], lambda: held[-1]):
        taken.append((step.kind, step.rate))
        held.append(added(held[-1], step, run(30.0, 0.04)))
    assert taken == [("rates", 0.04)]
    text = tables(held[-1])
    assert "| counts, and directions of features kept (lambda_f = 1) | 0.04 | 30.0 |" in text
    assert "step-flat" not in text
