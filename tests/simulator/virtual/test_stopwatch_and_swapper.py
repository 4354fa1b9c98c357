"""Where the time goes, and who is in memory."""

from __future__ import annotations

import time

import pytest

from simulator.virtual.stopwatch import Stopwatch
from simulator.virtual.swapper import Swapper


def test_seconds_inside_another_phase_count_once() -> None:
    watch = Stopwatch()
    with watch.phase("outer"):
        time.sleep(0.02)
        with watch.phase("inner"):
            time.sleep(0.05)
        watch.spent("told", 0.01)
    seconds = watch.take()
    assert seconds["inner"] == pytest.approx(0.05, abs=0.04)
    assert seconds["outer"] < seconds["inner"]
    assert seconds["told"] == 0.01
    assert watch.take() == {}


class Sleeper:
    def __init__(self) -> None:
        self.rests = 0

    def rest(self) -> None:
        self.rests += 1


def test_the_one_that_was_stepped_longest_ago_goes_to_rest() -> None:
    swapper, agents = Swapper(2), [Sleeper() for _ in range(4)]
    for number in (0, 1, 0, 2):
        swapper.stepped(agents[number])
    assert [agent.rests for agent in agents] == [0, 1, 0, 0]
    swapper.forget(agents[0])
    swapper.stepped(agents[3])
    assert [agent.rests for agent in agents] == [0, 1, 0, 0]
