"""Rollouts that gates are measured on go through the real rules; promises are checked."""

from __future__ import annotations

import pytest

from benchmarks.papers.rollout_gates.devices import Case, draw
from benchmarks.papers.rollout_gates.naive import naive
from benchmarks.papers.rollout_gates.rollout import Ending, Fleet
from benchmarks.papers.rollout_gates.run import CASES, PLAN, PROMISES, Promise, figures, table
from fleetledger.coordinator.topics.rollouts.entries import RolloutMeasured

DEVICES = 200
BY_NAME = {case.name: case for case in CASES}


def rolled_out(case: Case, seed: int = 0) -> tuple[Ending, Fleet]:
    fleet = Fleet(DEVICES)
    return fleet.roll_out(PLAN, draw(case, seed, DEVICES), case, seed), fleet


def test_an_equal_model_comes_to_all_devices() -> None:
    ending, fleet = rolled_out(BY_NAME["equal"])
    assert (ending.stage, ending.group, ending.exposed) == ("finished", 4, DEVICES)
    outcomes = {body.outcome for body, _, _ in fleet.entries if isinstance(body, RolloutMeasured)}
    assert "fail" not in outcomes


def test_a_worse_model_is_stopped_by_its_accuracy_before_all_devices_have_it() -> None:
    ending, _ = rolled_out(BY_NAME["4 points worse"])
    assert ending.stopped
    assert ending.exposed < DEVICES
    assert set(ending.gates) <= {"retention", "no_class_lost"}


def test_a_model_that_crashes_reaches_one_device() -> None:
    ending, _ = rolled_out(BY_NAME["crashes"])
    assert (ending.stopped, ending.group, ending.exposed) == (True, 1, 1)


def test_the_same_seed_ends_in_the_same_way() -> None:
    case = BY_NAME["2 points worse, devices differ"]
    assert rolled_out(case, 3)[0] == rolled_out(case, 3)[0]


def test_the_rule_of_thumb_sees_the_same_reports() -> None:
    sizes = (1, 20, 100, DEVICES)
    ending = naive(sizes, draw(BY_NAME["4 points worse"], 0, DEVICES), 0)
    assert (ending.stage, ending.exposed in sizes) == ("paused", True)


def test_a_stop_counts_by_the_group_that_it_came_in() -> None:
    found = figures(
        [
            Ending("rolled_back", 2, 50, ("retention",)),
            Ending("paused", 3, 250, ("retention",)),
            Ending("finished", 4, 1000, ()),
            Ending("finished", 4, 1000, ()),
        ]
    )
    assert [found[f"by_group_{group}"] for group in (1, 2, 3)] == [0, 0.25, 0.5]
    assert (found["stopped"], found["went_back"], found["exposed_most"]) == (0.5, 0.25, 1000)
    shown = table({"cases": {"a case": {"gates": found, "rule_of_thumb": None}}})
    assert "| a case | 50.0 % | 0.0 % | 25.0 % | 50.0 % | 25.0 % | 625 (1000) | – | – |" in shown


@pytest.mark.parametrize(("value", "holds"), [(0.01, True), (0.02, False)])
def test_a_promise_has_a_bound(value: float, holds: bool) -> None:
    assert Promise("equal", "stopped", 0.01, at_most=True).holds({"stopped": value}) is holds


def test_promises_are_about_cases_that_are_measured() -> None:
    assert {promise.case for promise in PROMISES} == set(BY_NAME)
