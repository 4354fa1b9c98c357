"""FBL's tables: every row is a scenario that holds, and says what its run came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.fbl_tables.cases import (
    AS_PRINTED,
    CASES,
    FAMILY,
    METHODS,
    NOTICING,
    PUBLISHED,
)
from benchmarks.papers.fbl_tables.measuring import measured
from benchmarks.papers.fbl_tables.pictures import draw_curves, draw_scenes, scenes_of, side_by_side
from benchmarks.papers.fbl_tables.tables import table
from fleetledger.methods.fbl.settings import LossSettings, ShareSettings
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.fake_run import Shape, fake_results, write_fake_run

SCENES = Shape(stages=3, seeds=(1,), pixels=True)
ROWS = [(name, method) for name, case in CASES.items() for method in case.methods]


def scenario(name: str, method: str) -> Scenario:
    data = None if name == "digits" else Path("somewhere.npz")
    return load_scenario(CASES[name].scenario, CASES[name].changes(method, data))


@pytest.mark.parametrize(("name", "method"), ROWS)
@pytest.mark.torch
def test_a_row_is_a_scenario_that_holds(name: str, method: str) -> None:
    settings = scenario(name, method).method.settings
    assert settings["preset"] == ("fbl" if method in {AS_PRINTED, NOTICING} else method)


@pytest.mark.parametrize("name", ["digits", "camvid"])
@pytest.mark.torch
def test_as_printed_has_nothing_of_the_scenario_in_its_loss(name: str) -> None:
    settings = scenario(name, AS_PRINTED).method.settings
    defaults = LossSettings().model_dump() | ShareSettings().model_dump()
    changed = {key for key in defaults if settings.get(key, defaults[key]) != defaults[key]}
    assert not changed
    assert scenario(name, "fbl").method.settings["unsure"] == "ignore"


@pytest.mark.parametrize("name", ["digits", "camvid"])
@pytest.mark.torch
def test_rows_of_a_case_differ_in_loss_and_noticing_alone(name: str) -> None:
    loss = {*LossSettings.model_fields, *ShareSettings.model_fields, "preset", "detection"}
    told = []
    for method in CASES[name].methods:
        found = scenario(name, method)
        kept = {key: value for key, value in found.method.settings.items() if key not in loss}
        told.append((found.model_copy(update={"method": None}), kept))
    assert all(row == told[0] for row in told)


def test_a_pack_is_a_file_of_pictures_with_masks() -> None:
    changes = CASES["camvid"].changes("fbl", Path("/packs/camvid.npz"), Path("/trunk.pth"))
    assert {"data.root=/packs/camvid.npz", "data.set=segmentation-npz"} <= set(changes)
    assert "method.trunk=/trunk.pth" in changes
    assert "data.root=/camvid" in CASES["camvid"].changes("fbl", Path("/camvid"))


def test_data_that_a_case_wants_is_asked_for() -> None:
    with pytest.raises(ScenarioError, match="--data"):
        CASES["voc-15-1"].changes("fbl", None)


def test_what_is_published_beside_a_scenario_has_a_row_each() -> None:
    for case in CASES.values():
        labels = {curve.label for curve in load_scenario(case.scenario).published}
        assert labels <= set(PUBLISHED.values())


def test_a_run_is_told_in_percent_task_by_task(tmp_path: Path) -> None:
    results = write_fake_run(tmp_path, SCENES)
    (tmp_path / "processor.jsonl").write_text("1.5\n2.0\n", encoding="utf-8")
    found, stages = measured(results, tmp_path), results.first.stages
    assert found["miou"] == [round(100 * stage.accuracy, 1) for stage in stages]
    assert found["classes"].keys() == stages[-1].class_iou.keys()
    assert found["sent_bytes"] == sum(stage.bytes_up.total for stage in stages)
    assert found["processor_seconds"] == 3.5


def run(*miou: float, **changes: Any) -> dict[str, Any]:
    classes = {"background": 90.0, "cat": 20.0, "dog": None}
    whole = {"miou": list(miou), "old": 30.0, "new": None, "classes": classes}
    return {**whole, "processor_seconds": 61.7, **changes}


def rows_of(name: str, **runs: dict[str, Any]) -> dict[str, list[str]]:
    case = CASES[name]
    told = {"machine": {"cpu": "a dream"}, "fields": case.fields, "runs": runs}
    text = table(case, load_scenario(case.scenario).published, told).partition("### By class")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {cells[0]: [cell.strip() for cell in cells] for cells in lines}


def test_a_row_has_its_gain_over_finetuning_and_no_figure_where_there_is_none() -> None:
    rows = rows_of("digits", fbl=run(70.0, 44.46), finetuning=run(70.0, 20.16))
    assert rows["FBL"] == ["FBL", "70.0", "44.5", "57.2", "30.0", "", "+24.3", "62"]
    assert rows["finetuning"][-2] == ""


def test_the_papers_figures_stand_beside_what_was_run_and_alone_where_nothing_was() -> None:
    rows = rows_of("voc-4-4", fbl=run(71.0, 60.0))
    assert rows["FBL"][-1] == "43.9 (70.4, 66.6, 53.6, 49.6, 43.9)"
    assert rows["RCIL"][-1] == "32.4"
    assert rows[METHODS["without-frc"]][-1] == "32.3"
    assert {METHODS[name] for name in FAMILY if name != NOTICING} <= rows.keys()


def test_models_stand_beside_the_truth_of_the_same_scenes(tmp_path: Path) -> None:
    shown = {}
    for title in ("fbl", "finetuning"):
        write_fake_run(tmp_path / title, SCENES)
        fake_results(SCENES).write(tmp_path / title)
        shown[title] = scenes_of(tmp_path / title)
    scene = side_by_side(shown)[2]
    assert list(scene.masks) == ["truth", "fbl", "finetuning"]
    np.testing.assert_array_equal(scene.masks["fbl"], shown["fbl"].said[-1][2])
    folders = [tmp_path / "fbl", tmp_path / "finetuning"]
    draw_scenes(folders, tmp_path / "seen.png")
    draw_curves(folders, tmp_path / "curves.png")
    draw_curves(folders[:1], tmp_path / "alone.png")
    found = {path.name: path.read_bytes()[:4] for path in tmp_path.glob("*.png")}
    assert found == dict.fromkeys(("seen.png", "curves.png"), b"\x89PNG")
