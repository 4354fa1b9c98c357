"""The table of all methods: every row fits, and rates are chosen apart from its seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.one_table.cases import BUDGET, METHODS, SCENARIO, TUNING_SEED
from benchmarks.papers.one_table.material import (
    LARGEST,
    LEVELS,
    Material,
    feature_pictures,
    held_out,
)
from benchmarks.papers.one_table.run import Step, added, steps
from benchmarks.papers.one_table.tables import tables
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.scenario.loading import load_scenario

MEBI = 2**20


@pytest.fixture
def material(tmp_path: Path) -> Material:
    return Material(tmp_path / "core.npz", tmp_path)


def run(average: float, mib_up: float = 1.0) -> dict[str, Any]:
    costs = {"mib_up": mib_up, "mib_down": 2.0, "device_seconds": 3.0}
    return {"average": average, "last": average - 10, "forgetting": 5.0, **costs}


@pytest.mark.parametrize("name", METHODS)
def test_a_row_is_a_scenario_with_the_same_stages_devices_and_partition(
    name: str, material: Material
) -> None:
    method = METHODS[name]
    scenario = load_scenario(SCENARIO, method.changes(material, 2, method.rates[0]))
    shared = load_scenario(SCENARIO, ["seeds=[2]"])
    assert scenario.method.name == method.name
    assert (scenario.seeds, scenario.stages) == (shared.seeds, shared.stages)
    assert scenario.devices.partition == shared.devices.partition
    assert scenario.devices.count == shared.devices.count


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.rate])
def test_a_rate_is_tried_on_a_seed_of_its_own_and_no_test_image(
    name: str, material: Material
) -> None:
    method = METHODS[name]
    scenario = load_scenario(SCENARIO, method.tuning_changes(material, method.rates[0]))
    assert scenario.seeds == (TUNING_SEED,)
    assert scenario.data.root in {str(material.held_out), str(material.held_out_pictures)}
    assert scenario.method.settings[str(method.rate)] == method.rates[0]


def test_held_out_images_are_training_images_that_nobody_learns_from() -> None:
    labels = np.repeat(np.arange(2), 200)
    train = np.arange(400, dtype=np.uint32).view(np.uint8).reshape(400, 2, 2)
    names = (ClassName("ant"), ClassName("bee"))
    split = Split(
        train=LabelledImages(train, labels, names),
        test=LabelledImages(np.full((2, 2, 2), 255, np.uint8), np.arange(2), names),
    )
    found = held_out(split)
    learned, asked = ({part.images[row].tobytes() for row in range(len(part))} for part in
                      (found.train, found.test))  # fmt: skip
    assert not learned & asked
    assert learned | asked == {image.tobytes() for image in train}
    assert np.bincount(found.test.labels).tolist() == [50, 50]


def test_features_come_back_from_pictures_to_half_a_step() -> None:
    features = np.random.default_rng(1).uniform(0, LARGEST, (3, 1920)).astype(np.float32)
    pictures = feature_pictures(features)
    back = pictures.reshape(3, -1)[:, :1920] * (LARGEST / LEVELS)
    assert np.abs(back - features).max() <= LARGEST / LEVELS / 2 + 1e-6
    assert not pictures.reshape(3, -1)[:, 1920:].any()


def test_rates_come_before_seeds_and_what_is_known_is_not_run_again() -> None:
    nothing: dict[str, Any] = {"rates": {}, "runs": {}}
    begun = added(nothing, Step("fedavg", 0.005, None), run(20.0))
    held = [added(begun, Step("fedncm", None, 1), run(50.0))]
    taken = []
    for step in steps(["lga", "fedncm", "fedavg"], [1, 2], lambda: held[-1]):
        taken.append((step.method, step.rate, step.seed))
        held.append(added(held[-1], step, run(30.0 if step.rate == 0.08 else 10.0)))
    assert taken == [
        *(("lga", rate, None) for rate in METHODS["lga"].rates),
        *(("fedavg", rate, None) for rate in (0.02, 0.08)),
        ("fedavg", 0.08, 1),
        *((name, rate, 2) for name, rate in (("fedncm", None), ("fedavg", 0.08))),
        *(("lga", METHODS["lga"].rates[0], seed) for seed in (1, 2)),
    ]


def test_the_table_ranks_by_average_and_marks_what_sends_too_much() -> None:
    above = BUDGET / MEBI + 0.1
    runs = {
        "fedavg": {"seed 1": run(20.0), "seed 2": run(22.0)},
        "stsa-best": {"seed 1": run(76.0)},
        "lga": {"seed 1": run(40.0, above)},
    }
    rates = {"fedavg": {"0.02": run(10.0), "0.3": run(12.0)}}
    text = tables({"machine": {"cores": 2}, "rates": rates, "runs": runs})
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:5]] == [
        METHODS[name].title for name in ("stsa-best", "lga", "fedavg")
    ]
    assert f"| {above:.2f} * |" in text
    assert "| 2 | 21.00 ± 12.71 |" in text, "Student's t with one degree of freedom"
    assert "0.02: 10.0, **0.3: 12.0**" in text
