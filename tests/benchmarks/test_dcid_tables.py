"""DCID's tables: every case is a scenario that holds, and rows say what runs came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.dcid_tables import norm_cases, norm_tables
from benchmarks.papers.dcid_tables.cases import CASES, EIGHT, SCENARIOS, Data
from benchmarks.papers.dcid_tables.norm_cases import chosen, key_of
from benchmarks.papers.dcid_tables.tables import tables
from fleetledger.simulator.scenario.loading import load_scenario

SIZES = {"images up": 10, "images down": 40, "logits up": 20, "logits down": 30}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.torch
def test_a_case_is_a_scenario_of_each_of_its_data(name: str) -> None:
    case = CASES[name]
    for data in case.data:
        scenario = load_scenario(SCENARIOS[data], case.changes(data, Path("core.npz")))
        assert scenario.seeds == case.seeds_on(data)
        assert scenario.method.settings["preset"] == case.preset


def run(average: float, seeds: tuple[int, ...], kinds: dict[str, int]) -> dict[str, Any]:
    number = {"mean": average, "deviation": 0.5 if len(seeds) > 1 else None}
    return {
        "seeds": list(seeds),
        "accuracy": {str(seed): [average + seed, average + seed] for seed in seeds},
        **dict.fromkeys(("base", "average", "final", "forgetting"), number),
        "bytes_per_session": {
            f"{kind} {way}": kinds.get(f"{kind} {way}", 0)
            for kind in ("images", "logits", "weights")
            for way in ("up", "down")
        },
        "shared_images": 4,
        "processor_seconds": 30.0,
    }


def told(data: Data) -> str:
    weights = {"weights up": 500, "weights down": 500}
    runs = {
        f"{data}/icarl-basic": run(50.0, (1, 2, 3), weights),
        f"{data}/icarl-dcid": run(52.0, (1, 2, 3), weights | SIZES),
        f"{data}/icarl-fedmax": run(51.0, (1,), weights),
    }
    return tables({"machine": {"cpu": "a dream"}, "runs": runs})


def test_a_row_has_the_gain_over_fedavg_seed_by_seed_beside_the_papers() -> None:
    text, _ = told("digits").split("### Bytes of a session")
    rows = {line.split(" | ")[0]: line for line in text.splitlines()}
    assert "52.00 ± 0.50" in rows["| iCaRL, DCID"]
    assert "+2.00 (+2.00, +2.00, +2.00)" in rows["| iCaRL, DCID"]
    assert "65.23 (54.16)" in rows["| iCaRL, DCID"]
    assert "+4.37" in rows["| iCaRL, DCID"]
    assert "| 1 | 51.00 | 51.00 |" in rows["| iCaRL, FedMAX"]


def test_bytes_stand_beside_those_of_weights_alone() -> None:
    text = told("cifar").split("### Bytes of a session")[1]
    assert "| 1.000 |" in text
    assert "| 1.100 |" in text


def test_a_skewed_site_has_the_gain_over_fedavg_at_the_same_skew() -> None:
    runs = {
        "cifar/site-alpha-1-basic": run(30.0, (1, 2), {"weights up": 500}),
        "cifar/site-alpha-1-dcid": run(31.0, (1, 2), {"weights up": 500}),
    }
    text = tables({"machine": {"cpu": "a dream"}, "runs": runs}).split("### Skewed sites")[1]
    rows = {line.split(" | ")[0]: line for line in text.splitlines()}
    assert rows["| iCaRL, FedAvg, each site Dirichlet 1"].endswith("|  |")
    assert "+1.00 (+1.00, +1.00)" in rows["| iCaRL, DCID, each site Dirichlet 1"]


def test_the_eight_are_beside_the_papers_ablation() -> None:
    assert len(EIGHT) == 8
    assert all(case.printed is not None for case in EIGHT.values())


@pytest.mark.parametrize("name", norm_cases.CASES)
@pytest.mark.torch
def test_a_case_about_norms_is_a_scenario_whose_rounds_are_compared(name: str) -> None:
    case = norm_cases.CASES[name]
    rates = {case.tuned: norm_cases.RATES[case.tuned][0]}
    scenario = load_scenario(norm_cases.SCENARIO, case.changes(2, rates, Path("core.npz")))
    assert scenario.seeds == (2,)
    assert scenario.evaluation.ensemble
    assert scenario.method.settings[case.tuned] == rates[case.tuned]


def norm_run(head: float) -> dict[str, Any]:
    rounds = [
        {"session": session, "round": number, "ensemble": head - 1, "mean": head, "general": head}
        for session in (2, 3)
        for number in (1, 2)
    ]
    figures = dict.fromkeys(("head", "head_final", "model", "model_final", "base"), head)
    return {**figures, "rounds": rounds, "processor_seconds": 20.0}


def norm_runs(name: str, best: float, heads: dict[int, float]) -> dict[str, dict[str, Any]]:
    """Runs of all rates with the seed of choosing, and of the best one with others."""
    rates = norm_cases.RATES[norm_cases.CASES[name].tuned]
    tried = {key_of(name, rate, 0): norm_run(90.0 if rate == best else 80.0) for rate in rates}
    return tried | {key_of(name, best, seed): norm_run(head) for seed, head in heads.items()}


def test_the_best_rate_is_that_of_a_seed_which_no_figure_is_of() -> None:
    runs = norm_runs("mean-averaged", 0.02, {1: 40.0, 2: 42.0, 3: 41.0})
    runs |= norm_runs("dcid-train", 1e-3, {1: 43.0, 2: 44.0, 3: 42.0})
    del runs[key_of("dcid-train", 1e-2, 0)]
    best = {name: chosen(runs, name) for name in norm_cases.CASES}
    assert best["mean-averaged"] == 0.02
    assert best["dcid-train"] is None, "not all of its rates were tried"
    text = norm_tables.tables({"machine": {"cpu": "a dream"}, "chosen": best, "runs": runs})
    assert "| mean, statistics averaged | rate 0.02 | 3 | 41.00 ± 2.48 |" in text
    assert "Not all seeds were run of mean-sent," in text


def test_differences_are_seed_by_seed_with_their_interval() -> None:
    runs = norm_runs("mean-averaged", 0.02, {1: 40.0, 2: 42.0, 3: 41.0})
    runs |= norm_runs("dcid-train", 1e-3, {1: 43.0, 2: 44.5, 3: 44.0})
    runs[key_of("dcid-train-still", 1e-12, 1)] = norm_run(43.0)
    best = {name: chosen(runs, name) for name in norm_cases.CASES}
    text = norm_tables.tables({"machine": {"cpu": "a dream"}, "chosen": best, "runs": runs})
    assert text.count("| DCID, norms in train | 3 | +2.83 (+2.12 to +3.55) |") == 2
    assert "| case | n | over the averaged mean | over statistics alone |" in text


def test_a_case_that_stands_beside_them_is_held_to_the_one_it_differs_from() -> None:
    runs = norm_runs("lucir-sites", 0.01, {1: 47.0, 2: 48.0, 3: 49.0})
    runs |= norm_runs("lucir-fleet", 0.02, {1: 48.0, 2: 49.0, 3: 50.0})
    best = {name: chosen(runs, name) for name in norm_cases.CASES}
    text = norm_tables.tables({"machine": {"cpu": "a dream"}, "chosen": best, "runs": runs})
    alike = "| LUCIR, mean, imprinted alike, over LUCIR, mean, imprinted at sites | 3 |"
    assert f"{alike} +1.00 (+1.00 to +1.00) | +1.00 (+1.00 to +1.00) |" in text
