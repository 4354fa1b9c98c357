"""DCID's tables: every case is a scenario that holds, and rows say what runs came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.dcid_tables.cases import CASES, EIGHT, SCENARIOS, Data
from benchmarks.dcid_tables.tables import tables
from simulator.scenario.loading import load_scenario

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


def test_the_eight_are_beside_the_papers_ablation() -> None:
    assert len(EIGHT) == 8
    assert all(case.printed is not None for case in EIGHT.values())
