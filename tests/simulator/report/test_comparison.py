"""Runs side by side: names, warnings, differences, and every file."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.headline import METRICS, metric_of
from fleetledger.simulator.metrics.over_seeds import paired_difference
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.comparison import compare
from fleetledger.simulator.report.contenders import setting_rows, warnings
from fleetledger.simulator.report.pictures.comparison import (
    draw_comparison,
    draw_contenders_over_time,
    draw_intervals,
)
from fleetledger.simulator.report.pictures.over_time import passes_time
from tests.simulator.fake_run import Shape, fake_results
from tests.simulator.report.test_files import Page

BASE = Shape(stages=3, devices=4)
BETTER = replace(BASE, skill=0.99, decay=0.0, seeds=(2, 3, 4))
OTHER = Shape(stages=4, devices=4, seeds=(9,), changes={"method": {"name": "[bold]<lga>"}})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    folders = []
    for name, shape in {"plain": BASE, "[red]<i>$better$": BETTER, "other": OTHER}.items():
        folders.append(root / name)
        folders[-1].mkdir()
        fake_results(shape).write(folders[-1])
    return folders


@pytest.fixture(scope="module")
def written(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("out") / "deeper"
    console = Console(file=StringIO(), width=200)
    found = compare(*folders)
    found.write(out)
    console.print(found.table())
    return out, console.file.getvalue()


def test_the_table_has_a_row_per_run_with_differences_and_warnings(written):
    table = written[1]
    assert "[red]<i>$better$" in table
    assert "average, %" in table
    assert "other differs from plain in the stages (3 with 6 classes against 4 with 8" in table
    assert "share no seed" in table


def test_the_csv_holds_means_and_paired_differences(written, folders: list[Path]):
    with (written[0] / "compare.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["run"], row["metric"]): row for row in csv.DictReader(file)}
    first, better = RunResults.read(folders[0]), RunResults.read(folders[1])
    expected = paired_difference(
        first.headline("final_accuracy"), better.headline("final_accuracy")
    )
    assert expected is not None
    row = rows["[red]<i>$better$", "final_accuracy"]
    assert float(row["mean"]) == better.summary["final_accuracy"].mean
    assert float(row["difference"]) == expected.mean
    assert float(row["difference_low"]) == expected.low
    assert (row["shared_seeds"], row["seeds"]) == ("2", "3")
    assert rows["plain", "final_accuracy"]["difference"] == ""
    assert rows["other", "final_accuracy"]["difference"] == ""
    assert {metric for run, metric in rows if run == "plain"} == set(first.summary)


def test_the_page_has_every_number_of_every_run_and_stands_alone(written):
    page = Page((written[0] / "compare.html").read_text(encoding="utf-8"))
    assert [link[:22] for link in page.links] == ["data:image/png;base64,"] * 2
    assert "[red]<i>$better$" in page.text
    assert "method.name" in page.text
    assert not {"script", "i", "lga"} & set(page.tags)
    for metric in map(metric_of, list(METRICS)[:5]):
        assert metric.title in page.text
    assert "share no seed" in page.text
    assert (written[0] / "compare.png").stat().st_size > 10_000
    assert "Intervals of the means" in page.text


def test_intervals_are_those_of_the_means(folders: list[Path]):
    contenders = compare(*folders).contenders
    (axes,) = draw_intervals(contenders).axes
    assert [label.get_text() for label in axes.get_yticklabels()][1] == r"[red]<i>\$better\$"
    averages, _ = axes.containers
    (bars,) = averages[2]
    for item, bar in zip(contenders, bars.get_segments(), strict=True):
        of = item.results.summary["average_incremental_accuracy"]
        half = of.half_width or 0.0
        assert bar[:, 0] == pytest.approx([100 * (of.mean - half), 100 * (of.mean + half)])


def test_the_picture_has_a_line_per_run(folders: list[Path]):
    contenders = compare(*folders).contenders
    left, right = draw_comparison(contenders).axes
    assert len(left.lines) == len(right.lines) == 3
    assert len(left.lines[2].get_ydata()) == 4
    label = left.lines[1].get_label()
    assert label.startswith(r"[red]<i>\$better\$: average")
    sent = sum(contenders[0].results.summary[name].mean for name in ("bytes_up", "bytes_down"))
    assert right.get_xlabel().endswith("MiB")
    assert right.lines[0].get_xdata()[-1] == pytest.approx(sent / 2**20)


def test_accuracy_over_time_has_a_line_per_run_whose_clock_moves(
    written: tuple[Path, str], folders: list[Path], tmp_path: Path
):
    moving = tmp_path / "in $time$"
    moving.mkdir()
    fake_results(replace(BASE, rounds=3)).write(moving)
    assert [passes_time(RunResults.read(one)) for one in (moving, folders[0])] == [True, False]
    found = compare(moving, folders[0])
    (axes,) = draw_contenders_over_time(found.contenders).axes
    assert [line.get_label() for line in axes.lines] == [r"in \$time\$"]
    found.write(tmp_path / "out")
    assert (tmp_path / "out" / "over_time.png").read_bytes().startswith(b"\x89PNG")
    assert not (written[0] / "over_time.png").exists()


def test_folders_with_the_same_name_are_told_apart(folders: list[Path], tmp_path: Path):
    again = tmp_path / "plain"
    again.mkdir()
    fake_results(BASE).write(again)
    names = [item.name for item in compare(folders[0], again).contenders]
    assert names[0] != names[1]
    assert all(name.endswith("/plain") for name in names)
    assert len(compare(again, again).contenders) == 2


def test_runs_of_the_same_data_and_stages_are_not_flagged(folders: list[Path]):
    assert warnings(compare(*folders[:2]).contenders) == []


def test_only_settings_that_differ_are_listed(folders: list[Path]):
    rows = setting_rows(compare(*folders).contenders)
    assert ("stages.count", "3", "3", "4") in rows
    assert ("method.name", "stsa", "stsa", "[bold]<lga>") in rows
    assert "devices.count" not in [row[0] for row in rows]


def test_other_data_are_flagged(folders: list[Path], tmp_path: Path):
    shape = replace(BASE, changes={"data": {"set": "digits", "per_class": 7}})
    fake_results(shape).write(tmp_path)
    told = warnings(compare(folders[0], tmp_path).contenders)
    assert told == [f"{tmp_path.name} differs from plain in the data."]


def test_one_run_is_nothing_to_compare(folders: list[Path], tmp_path: Path):
    with pytest.raises(RunError, match="at least 2"):
        compare(*folders[:1])


def test_a_folder_without_results_is_named(folders: list[Path], tmp_path: Path):
    with pytest.raises(RunError, match="finished run"):
        compare(folders[0], tmp_path)
    assert not (tmp_path / "out").exists()
