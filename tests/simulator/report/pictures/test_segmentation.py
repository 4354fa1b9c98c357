"""Pictures with masks side by side, through what the axes hold."""

import io

import numpy as np
import pytest
from PIL import Image

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.report.pictures.segmentation import (
    SegmentedScene,
    draw_segmentation,
    voc_colours,
)
from fleetledger.simulator.report.pictures.style import as_png

NAMES = tuple(ClassName(name) for name in ("cat", "dog", "a$b", "gnu"))
PICTURE = np.random.default_rng(0).integers(0, 256, (3, 4, 6), dtype=np.uint8)
TRUTH = np.array([[0, 0, 1, 1, 2, 255]] * 4, np.uint8)
OLD = np.array([[0, 0, 1, 1, 0, 3]] * 4, np.uint8)
NEW = np.array([[2, 0, 1, 0, 2, 0]] * 4, np.uint8)


def scene(**changed) -> SegmentedScene:
    masks = {"truth": TRUTH, "old model": OLD, "new model": NEW, **changed}
    return SegmentedScene(PICTURE, {heading: m for heading, m in masks.items() if m is not None})


def test_the_colours_are_those_of_voc():
    colours = voc_colours()
    assert colours[0].tolist() == [0, 0, 0]
    assert colours[1].tolist() == [128, 0, 0]
    assert colours[2].tolist() == [0, 128, 0]
    assert colours[15].tolist() == [192, 128, 128]  # person
    assert colours[20].tolist() == [0, 64, 128]  # tv monitor
    assert colours[255].tolist() == [224, 224, 192]
    assert len({tuple(colour) for colour in colours.tolist()}) == 256


def test_a_row_has_the_picture_the_truth_and_what_each_model_says():
    figure = draw_segmentation([scene(), scene()], NAMES)
    assert len(figure.axes) == 8
    assert [axes.get_title() for axes in figure.axes[:4]] == [
        "picture",
        "truth",
        "old model",
        "new model",
    ]
    assert all(not axes.get_title() for axes in figure.axes[4:])
    drawn = [np.asarray(axes.images[0].get_array()) for axes in figure.axes[4:]]
    assert np.array_equal(drawn[0], PICTURE.transpose(1, 2, 0))
    assert np.array_equal(drawn[1], voc_colours()[TRUTH])
    for pixels, mask in zip(drawn[2:], (OLD, NEW), strict=True):
        assert np.array_equal(pixels[:, :5], voc_colours()[mask[:, :5]])


def test_of_many_scenes_two_stand_in_a_row():
    figure = draw_segmentation([scene()] * 7, NAMES)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 28
    assert [axes.get_title() for axes in panels[:8]] == [
        "picture",
        "truth",
        "old model",
        "new model",
    ] * 2
    assert not any(axes.get_title() for axes in panels[8:])
    assert not any(axes.axison for axes in figure.axes if not axes.images)
    as_png(figure)
    tops = {round(axes.get_position().y0, 3) for axes in panels}
    assert len(tops) == 4


def test_nothing_is_drawn_where_nothing_is_asked():
    figure = draw_segmentation([scene()], NAMES)
    for axes in figure.axes[1:]:
        pixels = np.asarray(axes.images[0].get_array())
        assert (pixels[:, 5] == voc_colours()[255]).all()


def test_the_legend_names_the_classes_that_are_seen_in_their_colours():
    (legend,) = draw_segmentation([scene()], NAMES).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "background",
        "cat",
        "dog",
        "not asked",
    ]
    colours = [np.round(255 * np.array(p.get_facecolor()[:3])) for p in legend.get_patches()]
    assert np.array_equal(colours, voc_colours()[[0, 1, 2, 255]])


def test_a_name_with_a_dollar_is_no_formula():
    truth = np.full((4, 6), 3, np.uint8)
    figure = draw_segmentation([scene(truth=truth)], NAMES)
    assert r"a\$b" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert as_png(figure)


def test_it_is_a_png_of_a_height_that_fits_its_rows():
    heights = []
    for rows in (1, 3):
        data = as_png(draw_segmentation([scene()] * rows, NAMES))
        heights.append(Image.open(io.BytesIO(data)).height)
    assert heights[1] - heights[0] == pytest.approx(2 * 220 * 1.9 * 4 / 6, abs=3)


def test_truth_alone_can_be_drawn():
    figure = draw_segmentation([SegmentedScene(PICTURE, {"truth": TRUTH})], NAMES)
    assert len(figure.axes) == 2


@pytest.mark.parametrize(
    ("scenes", "told"),
    [
        ([], "scenes: none with a mask"),
        ([SegmentedScene(PICTURE, {})], "scenes: none with a mask"),
        ([scene(), scene(**{"old model": None})], "number 1 has masks truth, new model beside"),
        ([scene(truth=TRUTH[:3])], r"truth: mask of shape \(3, 6\)"),
        ([scene(truth=np.full((4, 6), 5, np.uint8))], "truth: value 5 is no class; there are 1 to"),
        ([scene(**{"new model": TRUTH})], "new model: value 255; a model says something"),
    ],
)
def test_what_does_not_fit_is_told(scenes, told: str):
    with pytest.raises(MetricsError, match=told):
        draw_segmentation(scenes, NAMES)
