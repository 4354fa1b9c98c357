"""Scenes that are quiet or new to a network of pixels, and what rules of noticing make of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.papers.detection.scene_cases import Case, Plan, pools
from benchmarks.papers.detection.scene_models import SceneValues
from benchmarks.papers.detection.scenes import episodes, in_order, study_case, summed_up

pytestmark = pytest.mark.torch

PLAN = Plan(draws=10, changed=40)
QUIET, NEW = np.arange(60), np.arange(60, 110)


def case(rise: float, nats: float) -> Case:
    """Sixty quiet scenes and fifty new ones, whose doubt is higher by `rise`."""
    doubt = np.random.default_rng(1).uniform(0.2, 0.4, 110)
    doubt[NEW] += rise
    look = np.where(np.arange(110) < 60, 0.1, 0.1 + nats)
    values = SceneValues(doubt, doubt, look, doubt, doubt, look)
    grown = SceneValues(doubt, doubt, look + 0.7, doubt, doubt, look + 0.7)
    return Case(1, ("owl",), QUIET, NEW, values, grown)


def test_a_scene_of_a_later_task_is_neither_quiet_nor_new() -> None:
    model = cast(Any, SimpleNamespace(names=("ant", "bee"), added=("owl",)))
    names = ("ant", "bee", "owl", "yak")
    pixels = np.array([[9, 1, 0, 0], [50, 45, 5, 0], [999, 0, 1, 0], [5, 0, 5, 5], [0, 0, 0, 0]])
    quiet, new = pools(pixels, names, model, Plan(least=0.01))
    assert (quiet.tolist(), new.tolist()) == ([0], [1])
    quiet, new = pools(pixels, names, model, Plan(most=0.01, least=0.05))
    assert (quiet.tolist(), new.tolist()) == ([0, 2], [1])


def test_a_draw_shows_no_scene_twice_and_the_share_of_new_ones_that_is_asked() -> None:
    for share, length in ((0.5, 40), (1.0, 40)):
        for episode in episodes(case(0.0, 0.0), share, PLAN):
            shown = np.concatenate([episode.held_out, episode.quiet, episode.changed])
            assert len(np.unique(shown)) == len(shown)
            assert len(episode.changed) == length
            assert np.isin(episode.changed, NEW).sum() == share * length


def test_stranger_scenes_are_noticed_and_a_grown_head_alone_is_a_rise() -> None:
    found = study_case(case(0.5, 0.5), PLAN)
    rows = {(row["rule"], row["share"]): row for row in summed_up([found])}
    assert rows["sequential 100", 1.0]["noticed"] == [1.0]
    assert rows["sequential 100", 1.0]["median_delay"] < 40
    assert rows["sequential 100", 1.0]["false_alarms_per_1000"][0] < 20
    assert rows["fixed-rise", 1.0]["noticed"] == [0.0]
    looks = found["looks"]
    assert (looks["sequential"]["noticed"], looks["sequential"]["false"]) == (10, 0)
    assert (looks["rise"]["noticed"], looks["rise"]["false"]) == (0, 0)
    assert (looks["rise, grown"]["noticed"], looks["rise, grown"]["false"]) == (10, 10)
    nothing = summed_up([study_case(case(0.0, 0.0), PLAN)])
    assert all(row["noticed"][0] < 1 for row in nothing if row["rule"] == "sequential 1000")


def test_scenes_that_change_slowly_raise_alarms_that_chance_does_not() -> None:
    slow = case(0.0, 0.0)
    slow.values.doubt[QUIET] = np.linspace(0.2, 0.9, 60)
    by = {row["held_out"]: row["reports_per_1000"]["100"] for row in in_order(slow, PLAN)}
    assert by["the first third"] > 20
    assert by["a third by chance"] < 10
