"""Gates on drawn fleets: what is drawn, that the product decides, and the promises in small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.papers.rollout_gates.evidence import (
    broken,
    check,
    findings,
    measure_setting,
    measure_small,
    stop_of,
    table,
)
from benchmarks.papers.rollout_gates.fleets import Setting, draw_reports, ends_of
from benchmarks.papers.rollout_gates.settings import BETTER, PROMISES, SETTINGS, SMALL, Promise
from fleetledger.coordinator.topics.rollouts.plan import GatePlan

BY_NAME = {setting.name: setting for setting in SETTINGS}
FIVE = BY_NAME["equal, bursts 5 x 20"]


def test_bursts_are_alike_images_of_few_things() -> None:
    reports = draw_reports(replace(FIVE, alike=1.0, devices=100), 2, 0)
    assert reports.images.shape == (2, 100, 11)
    assert (reports.images[:, :, 0] == 100).all()
    assert (reports.images[:, :, 1:] % 20 == 0).all()
    assert (reports.worse % 20 == 0).all()
    assert (reports.worse + reports.better <= reports.images).all()


def test_an_equal_model_loses_as_many_images_as_it_gains() -> None:
    for setting in (FIVE, BY_NAME["equal, sizes differ"]):
        reports = draw_reports(replace(setting, devices=500), 20, 1)
        images, worse, better = (
            one[:, :, 0].sum() for one in (reports.images, reports.worse, reports.better)
        )
        assert abs(worse - better) / images < 0.01
        assert worse / images == pytest.approx(0.04, abs=0.01)


def test_liars_come_first_in_each_group() -> None:
    setting = Setting("liars", devices=200, liars=0.1, lie="better")
    reports = draw_reports(setting, 1, 0)
    lying = np.nonzero(reports.better[0, :, 1:].min(axis=1) == 100)[0]
    starts = (0, *ends_of(200))[:-1]
    assert len(lying) == 20
    for begin, end in zip(starts, ends_of(200), strict=True):
        inside = lying[(lying >= begin) & (lying < end)]
        assert inside.tolist() == list(range(begin, begin + len(inside)))


@pytest.mark.parametrize(
    "setting",
    [
        Setting("worse", devices=60, drop=0.08),
        replace(FIVE, name="bursts", devices=60, drop=0.08),
        Setting("lost", devices=60, lost=0.8, classes=3),
        Setting("equal", devices=60),
    ],
)
def test_gates_stop_it_at_the_same_report(setting: Setting) -> None:
    reports = draw_reports(setting, 3, 0)
    for rollout in range(3):
        stop = stop_of(reports, rollout)
        check(reports, rollout, stop)
        assert (stop.reports is None) == (setting.name == "equal")


def test_what_differs_from_the_gates_is_noticed() -> None:
    reports = draw_reports(Setting("worse", devices=60, drop=0.08), 1, 0)
    stop = stop_of(reports, 0)
    assert stop.reports is not None
    with pytest.raises(AssertionError):
        check(reports, 0, replace(stop, reports=stop.reports + 1))


@pytest.mark.parametrize(
    ("name", "figure", "least", "most"),
    [
        ("equal, bursts 5 x 20", "stopped", 0, 0),
        ("equal, independent", "stopped", 0, 0),
        ("8 points worse, 2 % say better", "by_group_2", 10, 10),
        ("8 points worse, one liar says better", "by_group_2", 10, 10),
        ("4 points worse, independent", "by_group_3", 10, 10),
        ("2 points better, 2 % say worse", "stopped", 0, 1),
    ],
)
def test_promises_hold_on_few_rollouts(name: str, figure: str, least: int, most: int) -> None:
    found = measure_setting(BY_NAME[name], 10)
    assert least <= found[figure] <= most
    assert found["rollouts"] == 10


def test_bearing_liars_by_choice_costs_reports() -> None:
    setting = replace(BY_NAME["4 points worse, independent"], devices=300)
    reports = draw_reports(setting, 5, 0)
    for rollout in range(5):
        plain, bearing = stop_of(reports, rollout), stop_of(reports, rollout, GatePlan(liars=0.02))
        assert plain.reports is not None
        assert bearing.reports is None or bearing.reports >= plain.reports


def test_a_fleet_of_one_is_too_small_unless_images_are_known_to_differ() -> None:
    (one,) = (setting for setting in SMALL if setting.name == "1 device, equal, 100 images")
    found = measure_small(one, 5)
    assert found["alike_unset"] == {"fails": 0, "asks": 0, "too_few": 5}
    assert found["alike_1"]["too_few"] == 0


def test_an_adapter_passes_by_no_liar_and_by_enough_judges() -> None:
    passed = {}
    for name in ("50 judges, 6 points better", "20 judges, equal, one liar says better"):
        (one,) = (setting for setting in BETTER if setting.name == name)
        said = findings(one.setting, 5, GatePlan(better=100.0), judges=True)
        passed[name] = sum(finding.outcome == "pass" for finding in said)
    assert list(passed.values()) == [5, 0]


def test_promises_are_about_settings_and_are_told_when_broken() -> None:
    names = {*BY_NAME, *(one.name for one in BETTER)}
    assert {promise.setting for promise in PROMISES} <= names
    found = {"a": {"rollouts": 200, "stopped": 3, "by_group_2": 1, "by_group_3": 2, "asked": 0}}
    kept, lost = (Promise("a", "stopped", bound, at_most=True) for bound in (0.015, 0.014))
    assert broken(found, (kept, lost)) == [lost]
    found["a"]["exposed_mean"] = 900
    assert "| a | 1.5 % | 0.5 % | 1.0 % | 0.0 % | 900 |" in table(found)
