"""Where the time goes, and who is in memory."""

from __future__ import annotations

import time

import pytest

from fleetledger.learning.numerics.accelerator import taken_waits, waited_for
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.swapper import Swapper


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


def test_waiting_for_an_accelerator_is_a_phase_of_its_own_in_whatever_phase() -> None:
    watch = Stopwatch()
    watch.take()
    with watch.phase("training"):
        with waited_for():
            time.sleep(0.05)
        with watch.phase("sums"):
            pass
    with waited_for():
        time.sleep(0.02)
    watch.spent("looking", 0.01)  # no more than that
    with waited_for():
        pass
    seconds = watch.take()
    assert seconds["waiting"] >= 0.06
    assert seconds["looking"] == 0
    assert max(seconds["training"], seconds["sums"]) < seconds["waiting"]
    assert taken_waits(100) == 0, "what was waited in no phase is in no later one"


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
