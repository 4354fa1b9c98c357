"""Films that a camera gives, and what is counted of a detector that sees them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.detection.film_features import SIZE, parts_of, walk
from benchmarks.papers.detection.films import Camera, poisson
from benchmarks.papers.detection.quorum import most_together, trials
from benchmarks.papers.detection.streams import (
    QUIET_STREAMS,
    QUIET_THINGS,
    Pool,
    films,
    half_new_films,
    half_new_singles,
)
from fleetledger.learning.numerics.shots import BITS

CLASSES = np.repeat(np.arange(12), 60)


def pool(seed: int = 0) -> Pool:
    """Six known classes and six new ones, 60 images each."""
    chance = np.random.default_rng(seed)
    known, new = chance.permutation(360), 360 + chance.permutation(360)
    light = np.linspace(1, 0.3, len(CLASSES))
    doubts = chance.random(len(CLASSES))
    return Pool(CLASSES, doubts, known, new, known, CLASSES, light, 5, 3)


def test_a_film_goes_back_and_forth_over_the_frames_of_one_image() -> None:
    found = films(np.array([7, 9]), 4, np.random.default_rng(1))
    for thing, image in enumerate((7, 9)):
        mine = found.things == thing
        assert set(found.images[mine]) == {image}
        assert 5 <= mine.sum() <= 30
        assert set(np.abs(np.diff(found.frames[mine]))) == {1}
    assert found.frames.max() == 3


@pytest.mark.parametrize("kind", QUIET_STREAMS)
def test_quiet_streams_show_known_classes_alone(kind: str) -> None:
    stream = QUIET_STREAMS[kind](pool(), np.random.default_rng(2))
    assert len(stream.images) >= 300
    assert set(CLASSES[stream.images]) <= set(range(6))
    assert stream.change is None
    assert (np.diff(stream.things) >= 0).all()


def test_after_the_change_half_of_what_is_shown_is_new() -> None:
    stream = half_new_singles(pool(), np.random.default_rng(3))
    assert (CLASSES[stream.images[:150]] < 6).all()
    assert (CLASSES[stream.images[150:]] >= 6).mean() == 0.5
    stream = half_new_films(pool(), np.random.default_rng(3))
    first = stream.change
    assert stream.things[first - 1] == QUIET_THINGS - 1
    assert (CLASSES[stream.images[:first]] < 6).all()
    things = np.unique(stream.images[first:])
    assert len(things) == 130
    assert (CLASSES[things] >= 6).sum() == 65


def test_the_parts_of_a_data_set_share_no_image() -> None:
    labels = np.repeat(np.arange(3), 250)
    parts = parts_of(labels)
    together = np.concatenate(list(parts.values()))
    assert len(np.unique(together)) == len(together)
    assert all(len(set(np.bincount(labels[images]))) == 1 for images in parts.values())


def test_frames_of_a_walk_resemble_each_other_and_darken_with_the_light() -> None:
    image = np.random.default_rng(1).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    bright = list(walk(image, 4, 1.0, np.random.default_rng(2)))
    dark = list(walk(image, 4, 0.3, np.random.default_rng(2)))
    assert bright[0].shape == (SIZE, SIZE, 3)
    assert np.mean(dark) == pytest.approx(0.3 * np.mean(bright), rel=0.1)


def test_a_camera_alarms_where_new_things_come_and_not_by_frames_of_one() -> None:
    draw = np.random.default_rng(4)
    things = draw.normal(size=(200, BITS)).astype(np.float32)
    quiet = draw.uniform(0, 0.4, 200)
    camera = Camera("a", 1000, quiet, things)
    still = np.repeat(draw.normal(size=(1, BITS)).astype(np.float32), 500, axis=0)
    assert camera.alarms(np.full(500, 0.9), still) == []
    new = draw.normal(size=(100, BITS)).astype(np.float32)
    first = camera.alarms(np.full(100, 0.9), new)[0]
    assert 20 <= first <= 60


def test_an_interval_of_a_poisson_number_is_that_of_the_tables() -> None:
    """Of 10: 4.80 to 18.39; of none: up to 3.69."""
    assert poisson(10) == pytest.approx((4.80, 18.39), abs=0.05)
    assert poisson(0) == pytest.approx((0.0, 3.69), abs=0.1)


def test_a_quorum_is_of_reports_within_one_window() -> None:
    reports = [np.array([100]), np.array([250, 900]), np.array([320])]
    assert most_together(reports, 200) == 2
    assert most_together(reports, 220) == 3
    assert most_together([np.array([], int)] * 3, 200) == 0
    often = [np.arange(0, 20_000, 50)] * 4
    assert trials(often, 4, 4, 20, 200)["false"] == 20
