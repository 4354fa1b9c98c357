"""Every picture of a run, through what its axes hold rather than through pixels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.results import RunResults, summarise
from fleetledger.simulator.report.curves import accuracy_matrix, by_stage
from fleetledger.simulator.report.pages.renderer import Shown
from fleetledger.simulator.report.pictures.accuracy import draw_accuracy, draw_forgetting
from fleetledger.simulator.report.pictures.cost import draw_cost, draw_times, draw_traffic
from fleetledger.simulator.report.pictures.devices import draw_devices
from fleetledger.simulator.report.pictures.distribution import draw_distribution
from fleetledger.simulator.report.pictures.entropy import MOST_DRAWN, draw_entropy
from fleetledger.simulator.report.pictures.gallery import GALLERY, pictures_of
from fleetledger.simulator.report.pictures.heat_maps import draw_confusion, draw_matrix
from fleetledger.simulator.report.pictures.over_time import draw_over_time, passes_time
from fleetledger.simulator.report.pictures.rounds import draw_rounds
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.report.run_page import run_page
from tests.simulator.fake_run import Shape, fake_results, fake_scenario, fake_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_THERE = {"classes.png", "exposure.png"}
"""Pictures of masks, and of rollouts."""
PUBLISHED = [
    {"label": "STSA", "accuracy": [95, 90, 85]},
    {"label": "LANDER", "average": 60.5, "final": 55.25},
    {"label": "joint", "final": 98},
]


@pytest.fixture(scope="module")
def results() -> RunResults:
    changes = {"published": PUBLISHED}
    return fake_results(
        Shape(stages=3, rounds=4, stored=30, pooled=True, looks=True, changes=changes)
    )


def line(axes: Axes, label: str) -> Any:
    return next(item for item in axes.lines if label in str(item.get_label()))


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_curve_of_accuracy_is_the_mean_over_seeds(results: RunResults):
    figure = draw_accuracy(results)
    values = 100 * by_stage(results, lambda stage: stage.accuracy).mean(axis=0)
    curve = line(figure.axes[0], "this run, 3 seeds")
    assert curve.get_ydata() == pytest.approx(values)
    assert f"{values[0]:.1f}" in texts(figure)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [
        "1\n2",
        "2\n4",
        "3\n6",
    ]


def test_the_band_is_one_sample_deviation(results: RunResults):
    axes = draw_accuracy(results).axes[0]
    values = 100 * by_stage(results, lambda stage: stage.accuracy)
    band = axes.collections[0].get_paths()[0].vertices
    highest = values.mean(axis=0) + values.std(axis=0, ddof=1)
    assert band[:, 1].max() == pytest.approx(highest.max())


def test_printed_curves_are_dashed_and_printed_numbers_are_marked(results: RunResults):
    axes = draw_accuracy(results).axes[0]
    curve = line(axes, "STSA, printed: average 90.0, last 85.0")
    assert curve.get_linestyle() == "--"
    assert curve.get_ydata() == pytest.approx([95, 90, 85])
    average = line(axes, "LANDER, printed: average (dotted) 60.5, last (cross) 55.2")
    assert average.get_linestyle() == ":"
    assert average.get_ydata() == pytest.approx([60.5, 60.5])
    assert line(axes, "joint, printed: last (cross) 98.0").get_ydata() == [98]
    crosses = [item for item in axes.lines if item.get_marker() == "X"]
    assert [item.get_ydata()[0] for item in crosses] == [55.25, 98]
    low, high = axes.get_ylim()
    assert low < 55.25
    assert high > 98


def test_pooled_images_are_drawn_where_they_were_measured(results: RunResults):
    pooled = line(draw_accuracy(results).axes[0], "pooled images")
    assert pooled.get_ydata()[1] == pytest.approx(
        100 * np.mean([seed.stages[1].pooled_accuracy for seed in results.seeds.values()])
    )
    plain = draw_accuracy(fake_results(Shape(stages=2))).axes[0]
    assert not [item for item in plain.lines if "pooled" in str(item.get_label())]


def test_forgetting_and_old_and_new_classes_have_a_panel_each(results: RunResults):
    left, right = draw_forgetting(results).axes
    forgotten = by_stage(results, lambda stage: stage.forgetting).mean(axis=0)
    assert line(left, "forgetting").get_ydata() == pytest.approx(100 * forgotten)
    old = line(right, "classes of all earlier stages").get_ydata()
    assert np.isnan(old[0])
    assert old[2] == pytest.approx(
        100 * np.mean([seed.stages[2].old_accuracy for seed in results.seeds.values()])
    )


def test_the_matrix_shows_every_accuracy_as_a_number(results: RunResults):
    figure = draw_matrix(results)
    shown = figure.axes[0].images[0].get_array()
    assert shown.mask[0, 1]
    assert shown[2, 0] == pytest.approx(100 * accuracy_matrix(results)[2, 0])
    assert len(texts(figure)) == 6
    assert figure.axes[0].get_ylabel() == "after stage"


def test_many_stages_have_colours_only():
    figure = draw_matrix(fake_results(Shape(stages=13, seeds=(1,), test_per_class=10)))
    assert texts(figure) == []
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "5", "10"]


def test_tasks_taken_for_others_are_off_the_diagonal(results: RunResults):
    shown = draw_confusion(results).axes[0].images[0].get_array()
    assert shown.filled(np.nan).sum(axis=1) == pytest.approx(np.full(3, 100.0))
    assert (np.diag(shown) > 50).all()


def test_devices_are_sorted_by_what_the_model_is_worth_to_them(results: RunResults):
    left, right = draw_devices(results).axes
    assert line(left, "worst device").get_ydata()[-1] == pytest.approx(
        100 * results.summary["worst_device_accuracy"].mean
    )
    values = right.lines[0].get_ydata()
    assert list(values) == sorted(values)
    assert len(values) == 5


def test_small_fleets_are_drawn_device_by_device(results: RunResults):
    figure = draw_distribution(results)
    above, axes = figure.axes[:2]
    counts = np.array(results.first.distribution.samples).T
    assert axes.images[0].get_array().filled(0) == pytest.approx(counts)
    assert [bar.get_height() for bar in above.patches] == counts.sum(axis=0).tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "4", "5"]
    assert str(counts.max()) in texts(figure)


def test_of_a_thousand_devices_a_sample_is_drawn():
    shape = Shape(stages=12, classes_per_stage=3, devices=1000, seeds=(1,), test_per_class=10)
    axes = draw_distribution(fake_results(shape)).axes[1]
    assert axes.images[0].get_array().shape == (36, 200)
    assert axes.get_xlabel().startswith("200 evenly chosen of 1,000 devices")
    assert len(axes.get_yticklabels()) == 12


def test_class_names_are_no_formulae_and_not_endless():
    results = fake_results(Shape(stages=1, seeds=(1,)))
    held = results.first.distribution.model_copy(update={"class_names": ("$x^$", "long " * 9)})
    seed = results.first.model_copy(update={"distribution": held})
    figure = draw_distribution(results.model_copy(update={"seeds": {1: seed}}))
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert labels == [r"\$x^\$", "long long long …"]
    as_png(figure)


def test_bytes_are_drawn_of_the_fleet_and_of_a_device(results: RunResults):
    left, right = draw_traffic(results).axes
    heights = [bar.get_height() for bar in left.patches]
    total = [seed.stages[0].bytes_up.total for seed in results.seeds.values()]
    assert left.get_ylabel() == "payload per stage, MiB"
    assert heights[0] == pytest.approx(np.mean(total) / 2**20)
    assert len(heights) == len(right.patches) == 6
    assert left.get_yscale() == "linear"


def test_bytes_that_differ_much_are_drawn_on_a_logarithmic_axis(results: RunResults):
    def grown(seed):
        stage = seed.stages[0]
        spread = stage.bytes_down.model_copy(update={"total": 1e9, "mean": 2e8, "highest": 3e8})
        return seed.model_copy(
            update={"stages": (stage.model_copy(update={"bytes_down": spread}), *seed.stages[1:])}
        )

    seeds = {number: grown(seed) for number, seed in results.seeds.items()}
    for axes in draw_traffic(results.model_copy(update={"seeds": seeds})).axes:
        assert axes.get_yscale() == "log"
        assert axes.get_ylabel().endswith("logarithmic")


def test_the_cost_of_a_stage_is_everything_up_to_it(results: RunResults):
    axes = draw_cost(results).axes[0]
    marks = axes.collections[0]
    spent = results.summary["bytes_up"].mean + results.summary["bytes_down"].mean
    assert marks.get_offsets()[-1][0] == pytest.approx(spent / 2**20)
    assert marks.get_array()[-1] == pytest.approx(results.summary["compute_seconds"].mean)
    stored = by_stage(results, lambda stage: stage.stored_samples.total).mean(axis=0)
    assert np.argsort(marks.get_sizes()).tolist() == np.argsort(stored).tolist()
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert f"{stored.max():,.0f} samples stored" in legend


def test_a_fleet_that_stores_nothing_says_so():
    figure = draw_cost(fake_results(Shape(stages=2, seeds=(1,))))
    assert "no device stores samples" in texts(figure)


def test_rounds_are_counted_over_all_stages(results: RunResults):
    figure = draw_rounds(results)
    accuracy, drift, loss = figure.axes
    assert [list(item.get_xdata()) for item in accuracy.lines[:3]] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12],
    ]
    assert loss.lines[0].get_ydata() == pytest.approx([2, 1, 2 / 3, 0.5])
    assert drift.get_ylabel().startswith("client drift")
    assert "stage 1" in texts(figure)


def test_accuracy_over_time_goes_on_with_the_clock_of_the_stages(results: RunResults):
    (axes,) = draw_over_time(results).axes
    (line,) = axes.lines
    measured = []
    for seed in results.seeds.values():
        before, points = 0.0, []
        for stage in seed.stages:
            points += [(before + 30 * one.number, one.accuracy) for one in stage.rounds]
            before += stage.fleet_seconds
        measured.append(points)
    end = min(points[-1][0] for points in measured)
    assert line.get_xdata()[0] == pytest.approx(0.5)
    assert line.get_xdata()[-1] == pytest.approx(end / 60)
    at_the_end = [[100 * held for at, held in points if at <= end][-1] for points in measured]
    assert line.get_ydata()[-1] == pytest.approx(np.mean(at_the_end))
    first = [100 * seed.stages[0].rounds[0].accuracy for seed in results.seeds.values()]
    assert line.get_ydata()[0] == pytest.approx(np.mean(first))
    assert axes.get_xlabel() == "minutes by the fleet's clock"


def test_rounds_in_which_the_clock_stands_still_are_not_drawn_over_time():
    shape = Shape(stages=1, rounds=3, seeds=(1,))
    made = fake_results(shape)
    still = made.model_dump()
    for one in still["seeds"][1]["stages"][0]["rounds"]:
        one["fleet_seconds"] = None
    assert passes_time(made)
    assert not passes_time(RunResults.model_validate(still))


def marks(axes: Axes, marker: str) -> list[float]:
    """Return the rounds at which a mark stands."""
    return [
        float(x) for item in axes.lines if item.get_marker() == marker for x in item.get_xdata()
    ]


def test_looks_are_drawn_device_by_device_with_what_they_were(results: RunResults):
    panels = draw_entropy(results).axes
    first, second, third, fourth = panels[:4]
    assert first.get_title(loc="left") == "device-1"
    assert [list(item.get_xdata()) for item in first.lines if item.get_marker() == "."][:3] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12],
    ]
    begins = [item.get_xdata() for item in first.lines if item.get_linestyle() == ":"]
    assert [x[0] for x in begins if len(x)] == [4.5, 8.5]
    assert marks(first, "o") == [5, 9]
    assert marks(second, "s") == [6, 10]
    assert marks(third, "X") == [5, 9]
    assert marks(fourth, "^") == [8, 12]


def test_of_many_devices_those_are_drawn_that_were_wrong_most_often():
    shape = Shape(stages=2, devices=20, rounds=2, looks=True, seeds=(1,))
    panels = [axes for axes in draw_entropy(fake_results(shape)).axes if axes.get_visible()]
    names = [axes.get_title(loc="left") for axes in panels]
    assert len(names) == MOST_DRAWN
    assert "device-1" not in names
    assert "device-3" in names


def test_the_bars_of_time_add_up_to_the_stage(results: RunResults):
    axes = draw_times(results).axes[0]
    assert axes.get_xlabel() == "wall time, s"
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    stage = by_stage(results, lambda stage: stage.wall_seconds).mean(axis=0)
    assert max(ends) == pytest.approx(stage.max())
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert labels == [
        "features",
        "statistics",
        "intake",
        "solve",
        "export",
        "evaluation",
        "other",
    ]


def test_pictures_of_what_was_not_there_are_left_out(results: RunResults):
    of_samples = [picture.file for picture in GALLERY if picture.file not in NOT_THERE]
    assert [picture.file for picture in pictures_of(results)] == of_samples
    one = fake_results(Shape(stages=1, devices=1, seeds=(1,)))
    assert {p.file for p in GALLERY} - {p.file for p in pictures_of(one)} == {
        "forgetting.png",
        "matrix.png",
        "confusion.png",
        "classes.png",
        "exposure.png",
        "rounds.png",
        "over_time.png",
        "entropy.png",
    }


@pytest.mark.parametrize("draw", [draw_accuracy, draw_distribution, draw_cost])
def test_the_same_results_give_the_same_bytes(results: RunResults, draw):
    data = as_png(draw(results))
    assert data == as_png(draw(RunResults.model_validate_json(results.model_dump_json())))
    assert data.startswith(b"\x89PNG")
    assert b"Software" not in data


@pytest.mark.parametrize("shape", [Shape(stages=1, devices=1, seeds=(1,)), Shape(stages=2)])
def test_small_runs_are_drawn_without_a_warning(shape: Shape, recwarn: pytest.WarningsRecorder):
    results = fake_results(shape)
    for picture in pictures_of(results):
        as_png(picture.draw(results))
    assert [str(warning.message) for warning in recwarn] == []


def test_a_run_of_which_no_bytes_and_seconds_are_known_is_drawn():
    """As after a resumption, whose earlier stages were not watched."""
    fake = fake_seed(Shape(stages=2), seed=1)
    nothing = {"bytes_up": 0, "bytes_down": 0, "compute_seconds": 0.0}
    records = [
        record.model_copy(
            update={
                "seconds": {},
                "devices": {
                    name: device.model_copy(update=nothing)
                    for name, device in record.devices.items()
                },
            }
        )
        for record in fake.records
    ]
    seeds = {1: measure_seed(records, fake.answers, fake.counts)}
    results = summarise(fake_scenario(Shape(stages=2)), {}, seeds)
    pictures = pictures_of(results)
    assert "time.png" not in [picture.file for picture in pictures]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = run_page(
            results, [Shown(p.file, p.title, p.caption, as_png(p.draw(results))) for p in pictures]
        )
    assert "bytes.png" in [picture.file for picture in pictures]
    assert "0.00 B" in page.replace("\u00a0", " ")


def test_no_look_is_cut_off(results: RunResults):
    highest = max(look.entropy for stage in results.first.stages for look in stage.novelty_checks)
    assert all(axes.get_ylim()[1] > highest for axes in draw_entropy(results).axes)


def caption_of(results: RunResults, file: str) -> str:
    return next(item.shown(results).caption for item in GALLERY if item.file == file)


@pytest.mark.usefixtures("dots")
def test_captions_speak_of_what_is_drawn_and_of_nothing_else(results: RunResults):
    assert "Dashed" in caption_of(results, "accuracy.png")
    assert "Dotted" in caption_of(results, "accuracy.png")
    assert "samples they store" in caption_of(results, "cost.png")
    plain = fake_results(Shape(stages=3))
    for word in ("Dashed", "Dotted", "Crosses"):
        assert word not in caption_of(plain, "accuracy.png")
    assert "store" not in caption_of(plain, "cost.png")


def test_pictures_are_readable_on_a_small_screen(results: RunResults):
    drawn = [item.draw(results) for item in GALLERY if item.is_there(results)]
    assert max(figure.get_figwidth() for figure in drawn) <= 6.5  # 9 points are 8 of 420 pixels
