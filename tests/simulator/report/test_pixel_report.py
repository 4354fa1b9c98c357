"""The report of a run that gives pixels classes: mIoU wherever accuracy would stand."""

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.comparison import compare
from fleetledger.simulator.report.contenders import warnings
from fleetledger.simulator.report.curves import class_iou
from fleetledger.simulator.report.files import scenes_picture, segmented_scenes, write_report
from fleetledger.simulator.report.pictures.class_map import draw_class_iou
from fleetledger.simulator.report.pictures.heat_maps import draw_confusion, draw_matrix
from fleetledger.simulator.report.pictures.rounds import draw_rounds
from fleetledger.simulator.report.tables.learning import stage_table
from fleetledger.simulator.report.tables.segmentation import class_table, cost_table, task_table
from fleetledger.simulator.run.summary import summary_table
from fleetledger.simulator.shown_scenes import ShownScenes
from tests.simulator.fake_run import Shape, fake_results, write_fake_run
from tests.simulator.report.test_files import Page

SHAPE = Shape(stages=3, classes_per_stage=2, pixels=True, rounds=2, seeds=(1, 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResults, list[str]]:
    folder = tmp_path_factory.mktemp("run")
    results = write_fake_run(folder, SHAPE)
    return folder, results, [path.name for path in write_report(folder, results)]


@pytest.fixture(scope="module")
def results(run) -> RunResults:
    return run[1]


def without_pictures(page: str) -> str:
    return re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_the_files_are_named_by_the_score_and_scenes_are_among_them(run):
    names = run[2]
    assert {"miou.png", "classes.png", "scenes.png", "report.html"} <= set(names)
    assert not {"accuracy.png", "devices.png"} & set(names)


def test_the_page_says_miou_and_nowhere_accuracy(run):
    text = without_pictures((run[0] / "report.html").read_text(encoding="utf-8"))
    page = Page(text)
    assert "ccuracy" not in page.text.split("As it ran, every setting")[0]
    for said in (
        "average incremental mIoU",
        "mIoU by task",
        "IoU by class",
        "Costs of the network",
        "Test scenes before and after the last stage",
    ):
        assert said in page.text
    assert "as LGA printed it" not in page.text


def test_scenes_keep_their_colours_on_a_dark_page(run):
    text = without_pictures((run[0] / "report.html").read_text(encoding="utf-8"))
    natural = re.findall(r'<img class="natural"[^>]*alt="([^"]+)"', text)
    assert natural == ["Test scenes before and after the last stage"]
    dark = re.search(r"prefers-color-scheme: dark\) \{\s*figure img(\S*)", text)
    assert dark is not None
    assert dark[1] == ":not(.natural)"
    with Image.open(run[0] / "scenes.png") as image:
        assert min(image.size) > 300


def test_scenes_show_the_truth_and_the_last_two_models(run):
    shown = ShownScenes.load(run[0] / "seed-1" / "scenes.npz")
    rows = segmented_scenes(shown)
    assert len(rows) == len(shown.truth)
    assert list(rows[0].masks) == ["truth", "old model (stage 2)", "new model (stage 3)"]
    assert np.array_equal(rows[1].masks["old model (stage 2)"], shown.said[1, 1])
    assert np.array_equal(rows[1].masks["new model (stage 3)"], shown.said[2, 1])
    assert list(segmented_scenes(shown.first(1))[0].masks) == ["truth", "new model (stage 1)"]


def test_scenes_that_are_missing_torn_or_of_fewer_stages_are_named(tmp_path: Path):
    results = write_fake_run(tmp_path, replace(SHAPE, seeds=(1,)))
    path = tmp_path / "seed-1" / "scenes.npz"
    ShownScenes.load(path).first(2).save(path)
    with pytest.raises(MetricsError, match="answers of 2 stages, where the run has 3"):
        scenes_picture(tmp_path, results)
    path.write_bytes(b"torn")
    with pytest.raises(MetricsError, match=r"scenes\.npz"):
        scenes_picture(tmp_path, results)
    path.unlink()
    with pytest.raises(MetricsError, match=r"scenes\.npz"):
        scenes_picture(tmp_path, results)
    assert scenes_picture(tmp_path, fake_results(replace(SHAPE, pixels=False))) is None


def test_the_csv_names_miou_of_stages_tasks_rounds_and_iou_of_classes(run):
    folder, results, _ = run
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = {(r["seed"], r["stage"], r["metric"]): r["value"] for r in csv.DictReader(file)}
    assert not [name for _, _, name in rows if "accuracy" in name]
    stage = results.seeds[2].stages[1]
    assert float(rows["2", "", "final_miou"]) == results.seeds[2].headline["final_accuracy"]
    assert float(rows["2", "2", "miou"]) == stage.accuracy
    assert float(rows["2", "2", "miou_of_task_1"]) == stage.task_iou[0]
    assert float(rows["2", "2", "iou_of_background"]) == stage.class_iou["background"]
    assert float(rows["2", "2", "round_2_miou"]) == stage.rounds[1].accuracy
    assert float(rows["2", "2", "inference_seconds_per_scene"]) == pytest.approx(0.025)
    assert ("2", "2", "recall") not in rows


def test_a_row_of_the_class_table_follows_a_class_through_the_stages(results: RunResults):
    table = class_table(results)
    assert table.head[2:] == ("after stage 1, %", "after stage 2, %", "after stage 3, %")
    assert table.rows[0][0] == "background"
    assert len(table.rows) == 7
    last = results.first.stages[-1].class_names[0]
    row = next(row for row in table.rows if row[0] == last)
    assert row[1] == "3"
    held = [s.stages[2].class_iou[last] for s in results.seeds.values()]
    assert row[4] == f"{100 * np.mean(held):.2f}"


def test_the_task_table_has_nothing_before_a_task_came(results: RunResults):
    rows = task_table(results).rows
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[2][1:3] == ("–", "–")
    held = [seed.stages[2].task_iou[0] for seed in results.seeds.values()]
    assert rows[0][3] == f"{100 * np.mean(held):.2f}"


def test_the_costs_are_seconds_of_a_step_and_of_a_scene(results: RunResults):
    table = cost_table(results)
    assert table.head == (
        "stage",
        "training steps",
        "a training step, ms",
        "a test scene in ONNX Runtime, ms",
        "peak memory, MiB",
    )
    assert table.rows[0] == ("1", "80", "75.0", "25.0", "320")
    assert "CPUExecutionProvider, 8 at a time" in table.note


def test_columns_that_make_no_sense_of_pixels_are_left_out(results: RunResults):
    head = stage_table(results).head
    assert "mIoU, %" in head
    assert not [name for name in head if "recall" in name or "F1" in name or "pooled" in name]


def test_the_map_of_classes_has_a_row_for_background_and_each_class(results: RunResults):
    figure = draw_class_iou(results)
    axes = figure.axes[0]
    values = np.array(list(class_iou(results).values()))
    assert axes.images[0].get_array().filled(np.nan) == pytest.approx(100 * values, nan_ok=True)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "background"
    assert len(names) == 7
    assert len(axes.lines) == 3


def test_many_classes_are_drawn_without_numbers_and_some_are_named():
    shape = Shape(stages=4, classes_per_stage=20, pixels=True, seeds=(1,))
    axes = draw_class_iou(fake_results(shape)).axes[0]
    assert axes.images[0].get_array().shape == (81, 4)
    assert len(axes.get_yticklabels()) == 41
    assert not axes.texts


def test_background_stands_before_the_tasks_in_their_confusion(results: RunResults):
    axes = draw_confusion(results).axes[0]
    shown = axes.images[0].get_array().filled(np.nan)
    assert shown.sum(axis=1) == pytest.approx(np.full(4, 100.0))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "1", "2", "3"]
    assert draw_matrix(results).axes[1].get_ylabel() == "mIoU, %"


def test_rounds_and_the_table_in_the_terminal_say_miou(results: RunResults):
    assert draw_rounds(results).axes[0].get_ylabel().startswith("mIoU on")
    console = Console(file=StringIO(), width=120)
    console.print(summary_table(results))
    assert "mIoU after the last stage" in console.file.getvalue()
    assert "accuracy" not in console.file.getvalue()


def test_runs_of_pixels_are_compared_by_miou(run, tmp_path: Path):
    console = Console(file=StringIO(), width=200)
    found = compare(run[0], run[0])
    found.write(tmp_path / "out")
    console.print(found.table())
    assert "mIoU in %" in console.file.getvalue()
    page = without_pictures((tmp_path / "out" / "compare.html").read_text(encoding="utf-8"))
    assert "ccuracy" not in page
    assert "final_miou" in (tmp_path / "out" / "compare.csv").read_text(encoding="utf-8")


def test_runs_of_different_scores_are_told_apart(run, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    fake_results(replace(SHAPE, pixels=False)).write(other)
    told = warnings(compare(run[0], other).contenders)
    assert any("what it is scored by (mIoU against accuracy)" in text for text in told)
    console = Console(file=StringIO(), width=200)
    found = compare(run[0], other)
    found.write(tmp_path / "out")
    console.print(found.table())
    assert "Score in %" in console.file.getvalue()
