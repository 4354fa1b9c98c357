"""Virtual time: what is due next happens next, and nobody waits."""

from __future__ import annotations

import math

from fleetledger.simulator.virtual.clock import BEGINNING_NS, VirtualClock
from fleetledger.simulator.virtual.loop import Endpoint, Loop


def made() -> tuple[Loop, list[tuple[str, float]]]:
    return Loop(VirtualClock()), []


def run(loop: Loop, end: float = math.inf) -> None:
    while loop.next_time() <= end and loop.next_time() < math.inf:
        loop.step()


def test_acts_happen_by_their_time_and_equal_ones_in_the_order_of_asking() -> None:
    loop, seen = made()
    for name, when in (("c", 3.0), ("a", 1.0), ("b", 1.0)):
        loop.at(when, lambda name=name: seen.append((name, loop.clock.now)))
    run(loop)
    assert seen == [("a", 1.0), ("b", 1.0), ("c", 3.0)]


def test_an_act_whose_time_has_passed_happens_now() -> None:
    loop, seen = made()
    loop.at(5.0, lambda: loop.at(1.0, lambda: seen.append(("late", loop.clock.now))))
    run(loop)
    assert seen == [("late", 5.0)]


def test_the_clock_reads_nanoseconds_and_goes_on_from_where_it_is_set() -> None:
    clock = VirtualClock(BEGINNING_NS + 1_500_000_000)
    assert clock.now == 1.5
    clock.now = 2.25
    assert clock.time_ns() == BEGINNING_NS + 2_250_000_000
    assert clock.at(clock.time_ns()) == 2.25
    assert clock.readings.seconds() == 2.25
    clock.readings.sleep(100.0)
    assert clock.now == 2.25


def test_a_program_is_stepped_once_however_often_it_is_asked() -> None:
    loop, seen = made()
    endpoint = Endpoint(loop, lambda: seen.append(("step", loop.clock.now)) or math.inf)
    for when in (2.0, 1.0, 1.0, 3.0):
        endpoint.ask(when)
    run(loop)
    assert seen == [("step", 1.0)]


def test_a_program_is_stepped_again_when_it_said() -> None:
    loop, seen = made()
    moments = iter([4.0, 9.0, math.inf])

    def step() -> float:
        seen.append(("step", loop.clock.now))
        return next(moments)

    endpoint = Endpoint(loop, step)
    endpoint.ask()
    run(loop)
    assert [when for _, when in seen] == [0.0, 4.0, 9.0]


def test_a_busy_program_is_stepped_when_it_is_free() -> None:
    loop, seen = made()
    endpoint = Endpoint(loop, lambda: seen.append(("step", loop.clock.now)) or math.inf)
    endpoint.ask(1.0)
    endpoint.not_before = 7.0
    run(loop)
    assert seen == [("step", 7.0)]


def test_steps_of_one_program_keep_their_pause() -> None:
    loop, seen = made()
    endpoint = Endpoint(loop, lambda: seen.append(("step", loop.clock.now)) or math.inf, pause=0.5)
    for when in (1.0, 1.1, 1.2, 3.0):
        loop.at(when, endpoint.ask)
    run(loop)
    assert [when for _, when in seen] == [1.0, 1.5, 3.0]


def test_an_ended_program_is_not_stepped() -> None:
    loop, seen = made()
    endpoint = Endpoint(loop, lambda: seen.append(("step", loop.clock.now)) or math.inf)
    endpoint.ask(1.0)
    endpoint.end()
    endpoint.ask(2.0)
    run(loop)
    assert seen == []
