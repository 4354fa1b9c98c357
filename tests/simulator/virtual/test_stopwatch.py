"""Where the time goes."""

from __future__ import annotations

import time

import pytest

from fleetledger.learning.numerics.accelerator import taken_waits, waited_for
from fleetledger.simulator.virtual.stopwatch import Stopwatch


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
