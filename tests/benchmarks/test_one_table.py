"""The table of all methods: every row fits, and rates are chosen apart from its seeds."""

from __future__ import annotations

import json
import re
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.footing.cells import Step, added
from benchmarks.papers.footing.held_out import held_out
from benchmarks.papers.footing.markdown import ranked
from benchmarks.papers.footing.plot import spread_out
from benchmarks.papers.footing.rates import MOST_RATES, next_rate
from benchmarks.papers.one_table.cases import (
    BUDGET,
    GRADIENT_BOUND,
    METHODS,
    SCENARIO,
    SEEDS,
    TUNING_SEED,
)
from benchmarks.papers.one_table.material import (
    LARGEST,
    LEVELS,
    Material,
    feature_pictures,
)
from benchmarks.papers.one_table.steps import steps, unfinished
from benchmarks.papers.one_table.tables import groups, tables
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.scenario.loading import load_scenario

MEBI = 2**20
_NOT_TOLD_APART = (
    ("stsa-compact", "stsa-printed", "joint-linear"),
    ("pooled", "fed3r"),
    ("fedhaf-calibrated", "rounds-best", "fedavg-exemplars"),
    ("lga", "glfc"),
)
"""As the README says of rows."""


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


def test_every_accuracy_and_group_of_the_readme_is_one_of_the_tables() -> None:
    runs, from_scratch = (
        json.loads((RESULTS_FOLDER / name).read_text("utf-8"))["runs"]
        for name in ("one_table.json", "from_scratch.json")
    )
    rows = {
        tuple(f"{mean(run[of] for run in seeds.values()):.1f}" for of in ("average", "last"))
        for seeds in (*runs.values(), *from_scratch.values())
        if len(seeds) == len(SEEDS)
    }
    readme = (RESULTS_FOLDER.parents[1] / "README.md").read_text("utf-8")
    table = readme.partition("## Which method")[2].partition("\n## ")[0]
    told = re.findall(r"(\d+\.\d), (\d+\.\d)", table)
    assert len(told) > 10
    assert not set(told) - rows
    letters = {name: letter for letter, name, *_ in groups(ranked(runs))}
    for names in _NOT_TOLD_APART:
        assert len({letters[name] for name in names}) == 1, names


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


def test_a_method_tries_its_rates_then_runs_its_seeds_and_nothing_twice() -> None:
    nothing: dict[str, Any] = {"rates": {}, "runs": {}}
    begun = added(nothing, Step("fedavg", 0.005, None), run(10.0))
    held = [added(begun, Step("fedncm", None, 1), run(50.0))]
    taken = []
    for step in steps(["fedncm", "fedavg"], [1, 2], lambda: held[-1]):
        taken.append((step.method, step.rate, step.seed))
        found = {**run(20.0 if step.rate == 0.02 else 15.0), "rate": step.rate}
        held.append(added(held[-1], step, found))
    assert taken == [
        ("fedncm", None, 2),
        *(("fedavg", rate, None) for rate in (0.02, 0.08, 0.04)),
        *(("fedavg", 0.02, seed) for seed in (1, 2)),
    ]
    assert list(steps(["fedncm", "fedavg"], [1, 2], lambda: held[-1])) == []


def test_seeds_are_run_again_where_another_rate_is_best_since() -> None:
    known: dict[str, Any] = {"rates": {}, "runs": {}}
    for rate, average in ((0.005, 10.0), (0.02, 20.0), (0.04, 21.0), (0.08, 15.0)):
        known = added(known, Step("fedavg", rate, None), run(average))
    known = added(known, Step("fedavg", 0.02, 1), {**run(30.0), "rate": 0.02})
    known = added(known, Step("fedavg", 0.04, 2), {**run(30.0), "rate": 0.04})
    assert list(steps(["fedavg"], [1, 2], lambda: known)) == [Step("fedavg", 0.04, 1)]
    assert "fedavg" in unfinished(known)
    for seed in (1, 3):
        known = added(known, Step("fedavg", 0.04, seed), {**run(30.0), "rate": 0.04})
    assert "fedavg" not in unfinished(known)


def test_a_grid_grows_beyond_its_edge_until_the_best_has_neighbours_and_four_were_tried() -> None:
    first = (0.02, 0.08, 0.32)

    def tried(best: float) -> list[float]:
        """Return the rates in the order in which they are tried where `best` would be best."""
        seen: dict[float, float] = {}
        while (rate := next_rate(seen, first)) is not None:
            seen[rate] = -abs(log(rate / best))
        return list(seen)

    assert tried(0.08) == [*first, 0.04]
    assert tried(0.019) == [*first, 0.005]
    assert tried(0.004) == [*first, 0.005, 0.00125]
    assert tried(0.3) == [*first, 1.28]
    assert len(tried(1e9)) == MOST_RATES


def test_the_table_ranks_by_average_and_marks_what_sends_too_much() -> None:
    above = BUDGET / MEBI + 0.1
    runs = {
        "fedavg": {"seed 1": run(20.0), "seed 2": run(22.0)},
        "stsa-best": {"seed 1": run(76.0)},
        "lga": {"seed 1": run(40.0, above)},
    }
    rates = {"fedavg": {"0.02": run(10.0), "0.3": run(12.0)}}
    text = tables({"machine": {"cores": 2}, "rates": rates, "runs": runs})
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[1] for row in rows[2:5]] == [
        METHODS[name].title for name in ("stsa-best", "lga", "fedavg")
    ]
    assert f" | {above:.2f} * | " in text
    assert " | 2 | 21.00 ± 12.71 | " in text, "Student's t with one degree of freedom"
    assert "0.02: 10.0, **0.3: 12.0**" in text


def test_rows_share_a_group_unless_they_differ_clearly_from_its_first_seed_by_seed() -> None:
    def seeds(*averages: float) -> dict[str, Any]:
        return {f"seed {number}": run(average) for number, average in enumerate(averages, 1)}

    found = {
        "stsa-best": seeds(70.0, 75.0, 72.0),
        "fed3r": seeds(69.0, 74.5, 72.5),  # -1, -0.5, +0.5
        "fedcof": seeds(68.0, 73.0, 70.2),  # -2, -2, -1.8: clear, though intervals overlap
        "fedncm": seeds(68.0, 73.0, 70.0),
    }
    told = groups(ranked(found))
    assert [(letter, name) for letter, name, *_ in told] == [
        ("A", "stsa-best"),
        ("A", "fed3r"),
        ("B", "fedcof"),
        ("B", "fedncm"),
    ]
    assert [difference is None for *_, difference in told] == [True, False, True, False]


@pytest.mark.torch
def test_a_linear_head_in_one_place_ends_at_the_bound_and_at_the_minimum() -> None:
    import torch

    from benchmarks.papers.one_table.joint import LinearFit, Sample

    noise = torch.Generator().manual_seed(1)
    rows = torch.arange(60) % 3
    features = 2 + rows[:, None] + 3 * torch.randn(60, 5, generator=noise)
    fit = LinearFit(0.01)
    fit(Sample(features[rows < 2], rows[rows < 2]), 2)
    scores = fit(Sample(features, rows), 3)
    assert max(fit.gradients) <= GRADIENT_BOUND
    standard = ((features - features.mean(0)) / features.std(0, correction=0)).double()
    weights = torch.zeros(3, 6, dtype=torch.float64, requires_grad=True)
    slow = torch.optim.SGD([weights], 0.5)
    for _ in range(5000):
        slow.zero_grad()
        given = standard @ weights[:, :-1].T + weights[:, -1]
        loss = torch.nn.functional.cross_entropy(given, rows)
        (loss + 0.005 * weights[:, :-1].square().sum()).backward()
        slow.step()
    with torch.no_grad():
        wanted = (standard @ weights[:, :-1].T + weights[:, -1]).softmax(1)
        assert (scores(features).softmax(1) - wanted).abs().max() < 1e-4


@pytest.mark.torch
def test_a_hidden_head_in_one_place_learns_the_same_twice_and_leaves_chance_alone() -> None:
    import torch

    from benchmarks.papers.one_table.joint import HiddenFit, Sample

    rows = torch.arange(40) % 2
    sample = Sample(torch.eye(2)[rows] + 0.1, rows)
    before = torch.random.get_rng_state()
    one, other = (HiddenFit(0.1, 5, seed=3)(sample, 2) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(one(sample.features), other(sample.features))
    assert torch.equal(one(sample.features).argmax(1), rows)


def test_labels_lie_apart_in_their_order_around_where_lines_end() -> None:
    assert spread_out([60.0, 40.0], 4.0) == [60.0, 40.0]
    assert spread_out([41.0, 40.0, 8.0], 4.0) == [42.5, 38.5, 8.0]
    assert spread_out([45.0, 40.0, 39.0], 4.0) == [45.0 + 1 / 3, 41.0 + 1 / 3, 37.0 + 1 / 3]
