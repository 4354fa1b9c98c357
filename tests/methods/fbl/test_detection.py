"""Noticing a task: by a device's own history, a fixed rise, the registry, and as released."""

from __future__ import annotations

import pytest

from fleetledger.methods.fbl.detection import (
    MOST_CHECKS,
    Measured,
    NoveltyHistory,
    Present,
    judge_novelty,
    stands_out,
)
from fleetledger.methods.fbl.settings import DetectionSettings
from tests.methods.fbl.making import ANT, BEE, EVERY

OLD, ALL = (ANT, BEE), EVERY
SCENES = 30


def measured(value):
    """A look at scenes that are all alike."""
    return Measured(value, (value,) * SCENES)


def run(rules, values, rows=ALL, stage=1, fleet_stages=None, before=None):
    """What a device says to `values`, one after another, and what it remembers."""
    looks, said = before or NoveltyHistory(), []
    for number, value in enumerate(values):
        fleet = fleet_stages[number] if fleet_stages else 1
        transition, looks = judge_novelty(
            rules, looks, measured(value), Present(rows, stage, fleet)
        )
        said.append(transition)
    return said, looks


def test_a_first_look_begins_the_first_task():
    for detection in ("history", "sequential", "rise", "stage"):
        said, looks = run(DetectionSettings(detection=detection), [0.5, 0.5])
        assert said == [True, False], detection
        assert looks.tasks == 1


def test_a_level_must_stand_out_of_the_looks_since_the_last_transition():
    rules = DetectionSettings(deviations=2.0, smallest_deviation=0.05, looks=3)
    said, looks = run(rules, [0.9, 0.30, 0.30, 0.30, 0.39, 0.50, 0.30])
    assert said == [True, False, False, False, False, True, False]
    assert looks.tasks == 2
    assert looks.history == (0.30,)
    assert run(DetectionSettings(smallest_deviation=0.02, looks=3), [0.9, 0.3, 0.3, 0.39])[0][-1]
    assert not run(DetectionSettings(deviations=9.0, looks=3), [0.9, 0.3, 0.3, 0.39])[0][-1]


def test_a_history_that_varies_allows_more_and_only_its_last_looks_count():
    rules = DetectionSettings(smallest_deviation=0.01, looks=2)
    assert not stands_out((0.2, 0.4), 0.49, rules)
    assert stands_out((0.2, 0.4), 0.51, rules)
    assert stands_out((0.9, 0.2, 0.4), 0.51, rules)
    assert not stands_out((), 1.0, rules)


def test_a_level_may_stand_out_below_too():
    """What masks have called background before is certain to be background."""
    levels = (0.29, 0.30)
    rules = DetectionSettings()
    assert stands_out(levels, 0.2, rules)
    assert not stands_out(levels, 0.27, rules)
    assert stands_out(levels, 0.4, rules)
    above = DetectionSettings(stands_out="above")
    assert not stands_out(levels, 0.2, above)
    assert stands_out(levels, 0.4, above)


def test_scenes_may_be_stranger_than_those_of_the_look_before_or_less_strange():
    rules = DetectionSettings(detection="sequential", quiet_looks=50)
    said, looks = run(rules, [0.3, 0.3, 0.3, 0.5, 0.5, 0.5, 0.2])
    assert said == [True, False, False, True, False, False, True]
    assert looks.levels == (), "after a transition the next look is what is compared with"
    assert sum(run(rules, [0.3, 0.3])[1].levels) == SCENES
    above = DetectionSettings(detection="sequential", quiet_looks=50, stands_out="above")
    assert run(above, [0.3, 0.3, 0.2])[0] == [True, False, False]
    assert run(above, [0.3, 0.3, 0.5])[0] == [True, False, True]


def test_rows_stay_those_of_the_historys_beginning():
    rules = DetectionSettings()
    _, looks = run(rules, [0.5, 0.3], rows=OLD)
    assert looks.rows == OLD
    said, later = run(rules, [0.3], rows=ALL, before=looks)
    assert (said, later.rows) == ([False], OLD)
    said, later = run(rules, [0.9], rows=ALL, before=looks)
    assert (said, later.rows) == ([True], ALL)


def test_a_rise_is_over_the_look_before_at_least_tau():
    rules = DetectionSettings(detection="rise", entropy_rise=0.6)
    said, looks = run(rules, [0.1, 0.69, 1.3, 0.2, 0.4])
    assert said == [True, False, True, False, False]
    assert looks.history == (0.1, 0.69, 1.3, 0.2, 0.4)
    assert run(DetectionSettings(detection="rise", entropy_rise=0.5), [0.1, 0.69])[0][-1]


def test_the_released_monitor_begins_anew_with_every_stage_and_signals_first():
    """At each boundary the value before is -1, so that 0.6 is reached by anything."""
    rules = DetectionSettings(detection="rise", released_monitor=True)
    values, stages = [0.01, 0.3, 0.0, 0.05], [1, 1, 2, 2]
    assert run(rules, values, fleet_stages=stages)[0] == [True, False, True, False]
    plain = DetectionSettings(detection="rise")
    assert run(plain, values, fleet_stages=stages)[0] == [True, False, False, False]
    assert run(rules, [0.01, 0.7], fleet_stages=[1, 1])[0] == [True, True]


def test_the_registry_tells_of_scenes_of_a_newer_stage():
    rules = DetectionSettings(detection="stage")
    said, looks = run(rules, [0.1, 0.9], stage=1)
    assert said == [True, False]
    said, looks = run(rules, [0.0, 0.9], stage=3, before=looks)
    assert said == [True, False]
    assert run(rules, [0.9], stage=2, before=looks)[0] == [False]


def test_what_is_remembered_is_bounded():
    rules = DetectionSettings(detection="rise")
    _, looks = run(rules, [0.1] * (MOST_CHECKS + 7))
    assert len(looks.history) == MOST_CHECKS


@pytest.mark.parametrize("detection", ["history", "rise", "stage"])
def test_the_newest_stages_are_remembered(detection):
    _, looks = run(DetectionSettings(detection=detection), [0.5], stage=2, fleet_stages=[3])
    assert (looks.stage, looks.fleet_stage) == (2, 3)
