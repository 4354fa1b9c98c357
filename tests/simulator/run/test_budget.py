"""A run's time: it is over when its seconds are spent, and a run always gets a step on."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from fleetledger.simulator.run.progress import Budget, BudgetSpentError, Screen


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_is_spent_when_its_seconds_are_over() -> None:
    clock = Clock()
    budget = Budget(60, clock)
    clock.now += 59
    budget.check()
    clock.now += 1
    with pytest.raises(BudgetSpentError, match="budget: 60 s are spent"):
        budget.check()


def test_without_a_budget_nothing_ends() -> None:
    clock = Clock()
    budget = Budget(None, clock)
    clock.now = 1e12
    budget.check()


def test_a_run_without_time_left_still_begins_one_stage_and_ends_one_round() -> None:
    screen = Screen(Console(file=StringIO()), 1, budget=Budget(0))
    screen.seed(0, 1, 0, 2)
    screen.stage(1, 2)
    screen.stage(1, 2)
    screen.round(0, 3)
    with pytest.raises(BudgetSpentError):
        screen.round(1, 3)


def test_a_stage_with_its_last_round_is_finished_before_the_run_stops() -> None:
    screen = Screen(Console(file=StringIO()), 1, budget=Budget(0))
    screen.stage(1, 2)
    screen.round(3, 3)
    with pytest.raises(BudgetSpentError):
        screen.stage(2, 2)
